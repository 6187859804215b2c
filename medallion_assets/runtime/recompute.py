"""Recompute the rows of the keys that changed upstream: replaced, deleted or matched late.

Every other row stays as it is. The rows of those keys are computed from all of upstream, so that every kind
of change reaches the table and a repeated run gives the same rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.expectations import expect
from medallion_assets.declare.layout import laid_out
from medallion_assets.declare.scd import START_AT
from medallion_assets.declare.table import Table, other_flows
from medallion_assets.delta import log, working
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.commit import GONE, Transaction, append, upsert
from medallion_assets.delta.names import of_keys, quoted
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import HELD_AT, at_version, current_static_versions, position
from medallion_assets.quality.derive import derived
from medallion_assets.quality.history import states
from medallion_assets.quality.judge import counted, judged, refuse_beyond_bounds, written_columns
from medallion_assets.quarantine.entries import identity_of, leaving
from medallion_assets.quarantine.poison import sound
from medallion_assets.quarantine.quarantined import JUDGED, replace_quarantined
from medallion_assets.quarantine.repairs import in_force, text_columns
from medallion_assets.runtime.write import Prepared, joining
from medallion_assets.session.frames import persisted
from medallion_assets.sources.quarantine import TRIED


def as_judged(before: DataFrame, table: Table) -> dict[str, int]:
    """Return the counts of the rows by outcome; a row that waits in quarantine does not count as good."""
    if TRIED in before.columns:
        waits = expect("waits", f"NOT coalesce({TRIED}, false)")
        then = replace(table, expectations=(*table.expectations, waits))
        return counted(judged(before, then, None), table)
    return counted(judged(before, table, None), table)


def as_found(
    before: DataFrame, table: Table, lake: Lake, keys: DataFrame | None, static_versions: Mapping[str, int]
) -> dict[str, int]:
    """Return the counts of the rows by outcome, where batches read different versions of a static input.

    One version of a static input may give another outcome than the row got in its own batch. Therefore
    table rows and quarantine entries are counted; every other row that was not dropped was a duplicate.
    """
    counts, own = as_judged(before, table), static_versions.get(table.key)
    if not _met_several_versions(table) or own is None:
        return counts
    spark = before.sparkSession
    rows = at_version(spark, lake.path(table), own)
    if keys is not None:
        rows = of_keys(rows, keys)
    good, held = rows.count(), _held(before, table, lake, keys, static_versions)
    moved = counts["good"] - good + counts["quarantine"] - held
    return counts | {"good": good, "quarantine": held, "duplicate": counts["duplicate"] + moved}


def _held(
    before: DataFrame, table: Table, lake: Lake, keys: DataFrame | None, static_versions: Mapping[str, int]
) -> int:
    version, path = static_versions.get(HELD_AT), lake.quarantine(table)
    if version is None or not log.exists(path):
        return 0
    return leaving(at_version(before.sparkSession, path, version).where(JUDGED), keys).count()


def _met_several_versions(table: Table) -> bool:
    return any(read.unmatched in ("keep", "quarantine") and not read.follow for _, read in table.reads)


@dataclass(frozen=True)
class RecomputeScope:
    """Which rows are recomputed.

    Attributes:
        keys: The keys to recompute (the table's key columns, each once); None for every row.
        versions: Upstream versions before and with the change.
        static_versions: Versions of the static inputs now.
        old_static_versions: Their versions when the rows were written as they are.
        fresh: The query's rows for the added upstream rows, where no upstream row was removed.
        replay: The replay whose repairs are tried now; repairs of earlier replays always apply.
        mark_quarantined: Mark the rows that are in quarantine (``repairs.in_force``).
    """

    keys: DataFrame | None
    versions: VersionRange
    static_versions: Mapping[str, int]
    old_static_versions: Mapping[str, int]
    fresh: DataFrame | None = None
    replay: str = ""
    mark_quarantined: bool = False


def prepare_recompute(spark: SparkSession, table: Table, lake: Lake, scope: RecomputeScope) -> Prepared:
    """Compute the rows of the scope from upstream as it is now, and how their counts change."""
    before = None
    if scope.versions.after >= 0:
        old_scope = replace(scope, replay="", mark_quarantined=bool(scope.replay))
        before = persisted(
            _rows_of_keys(spark, table, lake, old_scope, scope.versions.after, scope.old_static_versions)
        )
    if before is not None and scope.fresh is not None:
        # Upstream only grew: the old and the added rows are all rows, so that upstream is read once.
        rows = before.unionByName(scope.fresh, allowMissingColumns=True)
    else:
        rows = _rows_of_keys(spark, table, lake, scope, scope.versions.upto, scope.static_versions)
    now = persisted(judged(rows, table, None))
    frames = tuple(frame for frame in (now, before, scope.keys) if frame is not None)
    try:
        counts = counted(now, table)
        refuse_beyond_bounds(counts, table)
        was = _was(before, table, lake, scope) if before is not None else {}
    except BaseException:
        for frame in frames:
            frame.unpersist()
        raise

    def write(target: Lake, transaction: Transaction) -> None:
        there = (name for name, _ in log.schema(lake.upstream_log(table)))
        known_by = identity_of(text_columns(now), there, table.recomputed_by)
        replace_quarantined(now, table, target.quarantine(table), scope.keys, transaction, known_by)
        _write(_rows(spark, table, lake, scope, now), table, target, scope.keys, transaction)

    names = ", ".join(scope.keys.columns) if scope.keys is not None else ""
    strategy = f"recomputed for the keys of what changed: {names}" if names else "rewritten"
    counts |= {f"was:{name}": was.get(name, 0) for name in counts}
    return Prepared(counts, strategy, write, frames)


def _was(before: DataFrame, table: Table, lake: Lake, scope: RecomputeScope) -> dict[str, int]:
    if scope.replay:
        return as_judged(before, table)
    return as_found(before, table, lake, scope.keys, scope.static_versions)


def _rows_of_keys(
    spark: SparkSession,
    table: Table,
    lake: Lake,
    scope: RecomputeScope,
    version: int,
    static_versions: Mapping[str, int],
) -> DataFrame:
    """Return the query's rows for a version of upstream, limited to the keys of the scope."""
    upstream, quarantine = lake.upstream_log(table), lake.quarantine(table)
    repairs = in_force(spark, quarantine, scope.replay, scope.mark_quarantined)
    accepted = sound(_as_of(spark, upstream, version, scope.versions.upto), spark, quarantine, scope.replay)
    rows = derived(accepted, table, lake, static_versions, repairs)
    for other in other_flows(table):
        taken = position(other, lake)
        if taken >= 0:
            theirs = sound(at_version(spark, lake.upstream_log(other), taken), spark, quarantine)
            made = derived(theirs, other, lake, current_static_versions(other, lake), repairs)
            rows = rows.unionByName(made, allowMissingColumns=True)
    return _of_keys(rows, scope.keys)


def _as_of(spark: SparkSession, upstream: Path, version: int, newest: int) -> DataFrame:
    """Return upstream's rows of a version with the columns it has now, which the query may name."""
    rows = at_version(spark, upstream, version)
    if version == newest:
        return rows
    fields = at_version(spark, upstream, newest).schema.fields
    there = set(rows.columns)
    found = [F.col(quoted(f.name)) if f.name in there else F.lit(None) for f in fields]
    return rows.select(*(c.cast(f.dataType).alias(f.name) for c, f in zip(found, fields, strict=True)))


def _of_keys(rows: DataFrame, keys: DataFrame | None) -> DataFrame:
    return rows if keys is None else of_keys(rows, keys)


def _write(
    rows: DataFrame, table: Table, target: Lake, keys: DataFrame | None, transaction: Transaction
) -> None:
    path = target.path(table)
    if keys is None:
        rows = laid_out(rows, table.layout, path, table.key)
        append(rows, path, transaction, mode="overwrite", keep_schema=table.layout.is_asked_for)
        return
    rows = joining(rows, table, target)
    names = [*keys.columns, *([START_AT] if table.scd and table.scd.type == 2 else [])]
    upsert(with_gone(rows, keys, path, names), path, transaction, names)


def with_gone(rows: DataFrame, touched: DataFrame, path: Path, names: Sequence[str]) -> DataFrame:
    """Return the rows to merge, and with ``GONE`` true the table's rows of touched keys that no longer exist.

    Args:
        rows: The current rows of the touched keys.
        touched: Their keys, each once.
        path: The table.
        names: The columns that name a row of the table.
    """
    marked = rows.withColumn(GONE, F.lit(False))
    if not log.exists(path):
        return marked
    existing = rows.sparkSession.read.format("delta").load(str(path)).select(*names)
    touched_rows = of_keys(existing, touched)
    gone = of_keys(touched_rows, rows.select(*names), "left_anti").withColumn(GONE, F.lit(True))
    return marked.unionByName(gone, allowMissingColumns=True)


def _rows(spark: SparkSession, table: Table, lake: Lake, scope: RecomputeScope, now: DataFrame) -> DataFrame:
    """Return the table's rows for the keys of the scope."""
    good = now.where(f"{working.OUTCOME} = 'good'")
    kept = table.scd
    if kept is None:
        return good.select(*(F.col(quoted(c)) for c in written_columns(now)))
    whole = derived(
        at_version(spark, lake.upstream_log(table), scope.versions.upto), table, lake, scope.static_versions
    )
    times = whole.select(kept.sequence_by).where(F.col(kept.sequence_by).isNotNull())
    truncations = whole.where(F.expr(kept.apply_as_truncates or "false"))
    truncated = truncations.agg(F.max(kept.sequence_by).alias(working.TRUNCATED))
    return states(good, kept, times if kept.from_snapshots else None, truncated)
