"""The states a key went through, from its events: the same table for the same events in any order.

Semantics are those of AUTO CDC: a later ``sequence_by`` wins, a delete ends a state, and for type 2 a
state holds from ``__START_AT`` up to, not with, ``__END_AT``.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.scd import END_AT, START_AT, Changes

SINCE, STOOD = "_since", "_stood"
"""Of events that stand for a state: when it began, and that it is one."""

OURS = ("_broken", "_outcome", "_deleted", "_truncates", "_next", "_gap", "_begins", "_state", SINCE, STOOD)


def with_ties_told(events: DataFrame, kept: Changes) -> DataFrame:
    """Return the events with ``_check_untied``: false where another of its key and sequence differs."""
    same = Window.partitionBy(*(F.col(k) for k in kept.keys), F.col(kept.sequence_by))
    content = F.to_json(F.struct(*(F.col(f"`{c}`") for c in events.columns if not c.startswith("_"))))
    told = events.withColumn("_content", content)
    untied = F.min("_content").over(same).eqNullSafe(F.max("_content").over(same))
    return told.withColumn("_check_untied", untied).drop("_content")


def states(events: DataFrame, kept: Changes, snapshots: DataFrame | None, truncated: DataFrame) -> DataFrame:
    """Return the rows of the dimension for the keys of ``events``.

    Args:
        events: Good, untied events, all that there are of each key.
        kept: What to keep.
        snapshots: Every ``sequence_by`` value of the feed, where its rows are snapshots.
        truncated: One row, ``_truncated``: the last sequence at which all keys went, or NULL.

    Returns:
        The events' columns but ``except_columns``; for type 2 also ``__START_AT`` and ``__END_AT``.
    """
    told = _with_ends(_after(events, kept, truncated), kept, snapshots)
    rows = _newest(told, kept) if kept.type == 1 else _every(told, kept)
    unwanted = [c for c in rows.columns if c in (*OURS, *kept.except_columns) or c.startswith("_check_")]
    return rows.drop(*unwanted)


def _after(events: DataFrame, kept: Changes, truncated: DataFrame) -> DataFrame:
    if not kept.apply_as_truncates:
        return events
    later = F.col("_truncated").isNull() | (F.col(kept.sequence_by) > F.col("_truncated"))
    return events.crossJoin(truncated).where(later).drop("_truncated")


def _with_ends(events: DataFrame, kept: Changes, snapshots: DataFrame | None) -> DataFrame:
    """Add ``_deleted``, ``_next`` (when the event's state ends) and ``_gap`` (its key was gone then)."""
    deleted = F.coalesce(F.expr(kept.apply_as_deletes or "false").cast("boolean"), F.lit(False))
    if STOOD in events.columns:
        # Columns that are not kept are NULL here, of which a predicate may say anything.
        deleted = deleted & F.col(STOOD).isNull()
    by_key = Window.partitionBy(*kept.keys).orderBy(kept.sequence_by)
    told = events.withColumn("_deleted", deleted)
    told = told.withColumn("_next", F.lead(kept.sequence_by).over(by_key)).withColumn("_gap", F.lit(False))
    if snapshots is None:
        return told
    following = F.lead(kept.sequence_by).over(Window.orderBy(kept.sequence_by))
    told = told.join(snapshots.distinct().withColumn("_following", following), kept.sequence_by)
    # A snapshot without the key came before its next event.
    gap = F.col("_following").isNotNull() & (F.col("_next").isNull() | (F.col("_following") < F.col("_next")))
    told = told.withColumn("_gap", gap)
    return told.withColumn("_next", F.when(gap, F.col("_following")).otherwise(F.col("_next"))).drop(
        "_following"
    )


def _newest(told: DataFrame, kept: Changes) -> DataFrame:
    # The last event of a key has none after it; a gap after it means a snapshot without the key.
    return told.where("_next IS NULL AND NOT _deleted AND NOT _gap")


def _every(told: DataFrame, kept: Changes) -> DataFrame:
    by_key = Window.partitionBy(*kept.keys).orderBy(kept.sequence_by)
    tracked = _tracked(told, kept)
    ended = (F.col("_deleted") | F.col("_gap")).alias("ended")
    before = F.lag(F.struct(ended, tracked.alias("tracked"))).over(by_key)
    begins = before.isNull() | before["ended"] | ~before["tracked"].eqNullSafe(tracked)
    run = F.sum(F.when(F.col("_begins"), 1).otherwise(0)).over(by_key)
    marked = told.withColumn("_begins", begins).withColumn("_state", run).where("NOT _deleted")
    everything = F.struct(*(F.col(f"`{c}`") for c in marked.columns))
    found = marked.groupBy(*kept.keys, "_state").agg(
        F.max_by(everything, kept.sequence_by).alias("e"), F.min(_begun(told, kept)).alias(START_AT)
    )
    return found.select("e.*", START_AT, F.col("e._next").alias(END_AT))


def _begun(told: DataFrame, kept: Changes) -> Column:
    at = F.col(kept.sequence_by)
    return F.coalesce(F.col(SINCE), at) if SINCE in told.columns else at


def _tracked(told: DataFrame, kept: Changes) -> Column:
    """Return, as text, the values whose change begins a new state."""
    columns = [c for c in told.columns if not c.startswith("_")]
    unseen = (*kept.keys, kept.sequence_by, *kept.track_history_except, *kept.except_columns)
    columns = [c for c in columns if c not in unseen]
    chosen = kept.track_history_columns or columns
    return F.to_json(F.struct(*(F.col(f"`{c}`") for c in chosen)))
