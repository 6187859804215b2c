"""Commit a batch: first to its quarantine, then to its table, with the batch's numbers in that commit."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, NullType, StructType

from medallion_assets.declare.errors import ColumnsChanged
from medallion_assets.declare.layout import laid_out
from medallion_assets.declare.table import Table, other_flows
from medallion_assets.delta import log, working
from medallion_assets.delta.batches import Batch, newest, stamp
from medallion_assets.delta.commit import Transaction, append, commit_nothing
from medallion_assets.delta.names import quoted
from medallion_assets.delta.rollback import roll_back
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import at_version, current_static_versions
from medallion_assets.lake.staging import staged
from medallion_assets.quality.derive import derived
from medallion_assets.quality.judge import counted_within_bounds, judged, written_columns
from medallion_assets.quality.verdicts import refuse_unfit
from medallion_assets.quarantine.quarantined import append_refused
from medallion_assets.session.frames import computed, is_row_by_row, persisted
from medallion_assets.sources.schema_versions import WIDENING

WIDER = ("tinyint", "smallint", "int", "bigint")
"""Integer types, narrowest first: a column accepts values of the types before its own."""


def joining(rows: DataFrame, table: Table, lake: Lake) -> DataFrame:
    """Return rows as the layout declares them, to be written beside rows that stay.

    Raises:
        ColumnsChanged: The table has a column they lack, or of another type: it would hold NULL, or values
            that were cast, for these rows alone.
        SchemaRefused: They have other columns than the layout's schema.
    """
    fit = laid_out(rows, table.layout, lake.path(table), table.key)
    refuse_changed_columns(fit, table, lake)
    return fit


def refuse_changed_columns(rows: DataFrame, table: Table, lake: Lake, may_lack: Collection[str] = ()) -> None:
    """Raise where a table that has rows would hold NULL or cast values for these rows alone.

    Args:
        rows: What is to be written.
        table: The table.
        lake: Where it is.
        may_lack: Columns the table may have more than the rows, for a reason other than the query.

    Raises:
        ColumnsChanged: Names the columns and what to do.
    """
    held = _schema(lake.path(table))
    lost = [name for name in _lost(held, rows.schema) if name not in {*table.layout.generated, *may_lack}]
    if lost and (table.flow or table.flows):
        given = {name.lower() for flow in other_flows(table) for name in _columns_of(flow, lake)}
        lost = [name for name in lost if name.lower() not in given]
    # Delta holds the types of what is appended to bronze against the table's, and widens them where asked.
    free = table.source or log.properties(lake.path(table)).get(WIDENING) == "true"
    retyped = [] if free else list(_retyped(held, rows.schema))
    if lost or retyped:
        raise ColumnsChanged(table.key, lost, retyped, bool(table.source))


def _schema(path: Path) -> StructType:
    return log.spark_schema(path) if log.exists(path) else StructType()


def _columns_of(flow: Table, lake: Lake) -> list[str]:
    """Return the columns another stream into the table gives."""
    from pyspark.sql import SparkSession

    spark, version = SparkSession.getActiveSession(), log.version(lake.upstream_log(flow))
    if spark is None or version is None:
        return []
    none = at_version(spark, lake.upstream_log(flow), version).limit(0)
    return derived(none, flow, lake, current_static_versions(flow, lake)).columns


def _lost(held: DataType, new: DataType, under: str = "") -> Iterator[str]:
    """Return the columns and fields, by their path, that ``held`` has and ``new`` has not."""
    if isinstance(held, StructType) and isinstance(new, StructType):
        there = {field.name.lower(): field.dataType for field in new.fields}
        for field in held.fields:
            name = f"{under}{field.name}"
            if field.name.lower() not in there:
                yield name
            else:
                yield from _lost(field.dataType, there[field.name.lower()], f"{name}.")
    elif isinstance(held, ArrayType) and isinstance(new, ArrayType):
        yield from _lost(held.elementType, new.elementType, under)
    elif isinstance(held, MapType) and isinstance(new, MapType):
        yield from _lost(held.valueType, new.valueType, under)


def _retyped(held: StructType, new: StructType) -> Iterator[str]:
    known = {field.name.lower(): field.dataType for field in held.fields}
    for field in new.fields:
        old = known.get(field.name.lower())
        if old is not None and not _takes(old, field.dataType):
            yield f"{field.name} ({old.simpleString()} in the table, {field.dataType.simpleString()} now)"


def _takes(held: DataType, new: DataType) -> bool:
    """Return true where a column holds every value of another type as it is."""
    if type(held) is not type(new):
        names = [kind.simpleString() for kind in (new, held)]
        grows = all(name in WIDER for name in names) and WIDER.index(names[0]) < WIDER.index(names[1])
        return isinstance(new, NullType) or grows or names == ["float", "double"]
    if isinstance(held, DecimalType) and isinstance(new, DecimalType):
        return held.scale >= new.scale and held.precision - held.scale >= new.precision - new.scale
    # MERGE would cast what is inside without a word: 1.5 of an array to 1.
    if isinstance(held, ArrayType) and isinstance(new, ArrayType):
        return _takes(held.elementType, new.elementType)
    if isinstance(held, MapType) and isinstance(new, MapType):
        return _takes(held.keyType, new.keyType) and _takes(held.valueType, new.valueType)
    if isinstance(held, StructType) and isinstance(new, StructType):
        return not any(_retyped(held, new))
    return True


Write = Callable[[Lake, Transaction], None]
"""Write a batch into a lake: first the quarantine's commit, then the table's."""


class Prepared(NamedTuple):
    """A batch that is computed and judged, and not written yet.

    Attributes:
        counts: Counts of ``judge``; those of rows as they were before under ``was:<name>``.
        strategy: How the rows are written, and why.
        write: Writes into a lake: first the quarantine's commit, then the table's.
        frames: Persisted frames, to be unpersisted after the write.
        newest_sequence: For a changing dimension, the latest event taken.
    """

    counts: Mapping[str, int]
    strategy: str
    write: Write
    frames: tuple[DataFrame, ...] = ()
    newest_sequence: str = ""

    def unpersist(self) -> None:
        """Unpersist the frames."""
        for frame in self.frames:
            frame.unpersist()


@dataclass(frozen=True)
class Context:
    """The table, lake, session and run of a refresh, passed to every function of it.

    Attributes:
        table: The table, or one of its flows.
        lake: Where it is.
        spark: The session.
        run_id: Id of the run.
    """

    table: Table
    lake: Lake
    spark: SparkSession
    run_id: str = ""


def commit(prepared: Prepared, batch: Batch, context: Context, transaction: Transaction) -> Batch:
    """Commit a batch, and return it with its totals.

    A table with ``write_audit_publish`` is first written into a staged clone and checked there; then the
    table gets the same rows in one commit, or no row.

    Raises:
        GateClosed: A blocking check failed; nothing was published.
    """
    table, lake, spark = context.table, context.lake, context.spark
    path = lake.path(table)
    whole = stamp(transaction, path, table.flow, batch)
    try:
        if table.write_audit_publish:
            try:
                with staged(table, lake, spark) as stage:
                    _write(prepared, spark, stage, table, whole)
                    refuse_unfit(table, stage)
            except BaseException:
                roll_back(spark, path, lake.quarantine(table), transaction.run_id)
                raise
        _write(prepared, spark, lake, table, whole)
    finally:
        prepared.unpersist()
    done = newest(path, table.flow)
    return replace(done, replaced=batch.replaced) if done else batch


def _write(
    prepared: Prepared, spark: SparkSession, lake: Lake, table: Table, transaction: Transaction
) -> None:
    prepared.write(lake, transaction)
    # A MERGE or an append without effect may write no commit; the position must be committed in any case.
    commit_nothing(spark, lake.path(table), transaction)


def prepare_rows(
    rows: DataFrame, table: Table, existing: DataFrame | None, few: bool, replace_where: str = ""
) -> Prepared:
    """Judge rows that are appended: good ones to the table, refused ones to its quarantine.

    Args:
        rows: What the query gave.
        table: The table.
        existing: The table before the batch, None where no rule asks for it.
        few: They are made of so few rows that they may be computed into memory.
        replace_where: SQL predicate on rows of the table that the new ones replace.

    Raises:
        ExpectationFailed: More rows broke a rule than it allows; nothing was written.
    """
    asked = judged(rows, table, existing)
    values = computed(asked) if few else None
    keeps = values is None and not is_row_by_row(asked)
    verdict = persisted(asked) if keeps else asked if values is None else values
    counts = counted_within_bounds(verdict, table)

    def write(lake: Lake, transaction: Transaction) -> None:
        path = lake.path(table)
        good = verdict.where(F.col(working.OUTCOME) == "good").select(*map(quoted, written_columns(verdict)))
        good = laid_out(good, table.layout, path, table.key)
        append_refused(verdict, counts, table, lake.quarantine(table), transaction)
        append(good, path, transaction, replace_where=replace_where)

    return Prepared(counts, "appended", write, (verdict,) if keeps else ())
