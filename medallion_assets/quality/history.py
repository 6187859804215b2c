"""The states a key went through, from its events: the same table for the same events in any order.

Semantics are those of AUTO CDC: a later ``sequence_by`` wins, a delete ends a state, and for type 2 a
state holds from ``__START_AT`` up to, not with, ``__END_AT``.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.scd import END_AT, START_AT, Changes
from medallion_assets.delta import working
from medallion_assets.delta.names import RESERVED, quoted
from medallion_assets.sources.evolution import OURS
from medallion_assets.sources.row_json import row_json

SINCE, STOOD = working.SINCE, working.STOOD
"""Of events that stand for a state: when it began, and that it is one."""


def with_ties_told(events: DataFrame, kept: Changes) -> DataFrame:
    """Return the events with ``_check_untied``: false where another of its key and sequence differs."""
    same = Window.partitionBy(*(F.col(k) for k in kept.keys), F.col(kept.sequence_by))
    values = {c: F.col(quoted(c)) for c in events.columns if not OURS.fullmatch(c)}
    content = row_json(values, events.schema)
    told = events.withColumn(working.CONTENT, content)
    untied = F.min(working.CONTENT).over(same).eqNullSafe(F.max(working.CONTENT).over(same))
    return told.withColumn("_check_untied", untied).drop(working.CONTENT)


def states(events: DataFrame, kept: Changes, snapshots: DataFrame | None, truncated: DataFrame) -> DataFrame:
    """Return the rows of the dimension for the keys of ``events``.

    Args:
        events: Good, untied events, all that there are of each key.
        kept: What to keep.
        snapshots: Every ``sequence_by`` value of the feed, where its rows are snapshots.
        truncated: One row, ``working.TRUNCATED``: the last sequence at which all keys went, or NULL.

    Returns:
        The events' columns but ``except_columns``; for type 2 also ``__START_AT`` and ``__END_AT``.
    """
    told = _with_ends(_after(events, kept, truncated), kept, snapshots)
    rows = _newest(told, kept) if kept.type == 1 else _every(told, kept)
    unwanted = [c for c in rows.columns if c in kept.except_columns or c.startswith((RESERVED, "_check_"))]
    return rows.drop(*unwanted)


def _after(events: DataFrame, kept: Changes, truncated: DataFrame) -> DataFrame:
    if not kept.apply_as_truncates:
        return events
    later = F.col(working.TRUNCATED).isNull() | (F.col(kept.sequence_by) > F.col(working.TRUNCATED))
    return events.crossJoin(truncated).where(later).drop(working.TRUNCATED)


def _with_ends(events: DataFrame, kept: Changes, snapshots: DataFrame | None) -> DataFrame:
    """Add whether an event deletes, when its state ends, and whether its key was gone then."""
    deleted = F.coalesce(F.expr(kept.apply_as_deletes or "false").cast("boolean"), F.lit(False))
    if STOOD in events.columns:
        # Columns that are not kept are NULL here, of which a predicate may say anything.
        deleted = deleted & F.col(STOOD).isNull()
    by_key = Window.partitionBy(*kept.keys).orderBy(kept.sequence_by)
    told = events.withColumn(working.DELETED, deleted)
    told = told.withColumn(working.NEXT, F.lead(kept.sequence_by).over(by_key)).withColumn(
        working.GAP, F.lit(False)
    )
    if snapshots is None:
        return told
    following = F.lead(kept.sequence_by).over(Window.orderBy(kept.sequence_by))
    told = told.join(snapshots.distinct().withColumn(working.FOLLOWING, following), kept.sequence_by)
    # A snapshot without the key came before its next event.
    gap = F.col(working.FOLLOWING).isNotNull() & (
        F.col(working.NEXT).isNull() | (F.col(working.FOLLOWING) < F.col(working.NEXT))
    )
    told = told.withColumn(working.GAP, gap)
    return told.withColumn(
        working.NEXT, F.when(gap, F.col(working.FOLLOWING)).otherwise(F.col(working.NEXT))
    ).drop(working.FOLLOWING)


def _newest(told: DataFrame, kept: Changes) -> DataFrame:
    # The last event of a key has none after it; a gap after it means a snapshot without the key.
    return told.where(f"{working.NEXT} IS NULL AND NOT {working.DELETED} AND NOT {working.GAP}")


def _every(told: DataFrame, kept: Changes) -> DataFrame:
    by_key = Window.partitionBy(*kept.keys).orderBy(kept.sequence_by)
    tracked = _tracked(told, kept)
    ended = (F.col(working.DELETED) | F.col(working.GAP)).alias("ended")
    before = F.lag(F.struct(ended, tracked.alias("tracked"))).over(by_key)
    begins = before.isNull() | before["ended"] | ~before["tracked"].eqNullSafe(tracked)
    run = F.sum(F.when(F.col(working.BEGINS), 1).otherwise(0)).over(by_key)
    marked = (
        told.withColumn(working.BEGINS, begins).withColumn(working.STATE, run).where(f"NOT {working.DELETED}")
    )
    everything = F.struct(*(F.col(quoted(c)) for c in marked.columns))
    found = marked.groupBy(*kept.keys, working.STATE).agg(
        F.max_by(everything, kept.sequence_by).alias("e"), F.min(_begun(told, kept)).alias(START_AT)
    )
    return found.select("e.*", START_AT, F.col(f"e.{working.NEXT}").alias(END_AT))


def _begun(told: DataFrame, kept: Changes) -> Column:
    at = F.col(kept.sequence_by)
    return F.coalesce(F.col(SINCE), at) if SINCE in told.columns else at


def _tracked(told: DataFrame, kept: Changes) -> Column:
    """Return, as text, the values whose change begins a new state."""
    columns = [c for c in told.columns if not OURS.fullmatch(c)]
    unseen = (*kept.keys, kept.sequence_by, *kept.track_history_except, *kept.except_columns)
    columns = [c for c in columns if c not in unseen]
    chosen = kept.track_history_columns or columns
    return row_json({c: F.col(quoted(c)) for c in chosen}, told.schema)
