"""Writes a micro-batch into a table and its quarantine, each once however often it is replayed."""

import time
from pathlib import Path

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.layout import laid_out
from medallion_assets.declare.table import Table
from medallion_assets.delta import working
from medallion_assets.delta.commit import Transaction, append
from medallion_assets.delta.names import quoted
from medallion_assets.quality.bounds import within_bounds
from medallion_assets.quality.judge import counters, judged, written_columns
from medallion_assets.quarantine.quarantined import append_refused


def write_judged(
    rows: DataFrame,
    table: Table,
    path: Path,
    quarantine: Path,
    existing: DataFrame | None,
    transaction: Transaction,
    instead_of: str = "",
) -> dict[str, int]:
    """Write good rows to the table and refused ones to its quarantine; gives the counts of ``counters``.

    One pass where all rows are good; a second one, over the refused only, where some are not.
    ``instead_of`` is true of rows the new ones stand in for.
    A rule that says ``fail`` makes the first write fail, so that nothing of the batch is written.
    """
    verdict = within_bounds(judged(rows, table, existing), table)
    columns = [F.col(quoted(c)) for c in written_columns(verdict)]
    laid_out(verdict.select(*columns), table.layout, path, table.key)
    counts = _write_good(verdict, table, path, transaction, instead_of)
    append_refused(verdict, counts, table, quarantine, transaction)
    return counts


def _write_good(
    verdict: DataFrame, table: Table, path: Path, transaction: Transaction, instead_of: str
) -> dict[str, int]:
    seen = Observation(f"{table.key}-{time.monotonic_ns()}")
    told = verdict.observe(seen, *counters(table))
    if transaction.committed_to(path):
        # Delta skips the write, and with it the counting: an observation would wait for ever. The rows are
        # read whole, since Spark refuses to read of a file only what could not be parsed.
        told.write.format("noop").mode("overwrite").save()
    else:
        good = told.where(F.col(working.OUTCOME) == "good").select(*map(quoted, written_columns(verdict)))
        append(good, path, transaction, instead_of=instead_of)
    return {k: int(v) for k, v in seen.get.items()}
