"""Compute the states of each key from its events. The order in which the events arrive has no effect.

Semantics are those of AUTO CDC: the event with the highest ``sequence_by`` wins and a delete ends the
state. For type 2, a state is valid from ``__START_AT`` (inclusive) to ``__END_AT`` (exclusive).
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.scd import END_AT, START_AT, Changes
from medallion_assets.delta import working
from medallion_assets.delta.names import RESERVED, quoted
from medallion_assets.sources.evolution import OURS
from medallion_assets.sources.row_json import row_json

SINCE, IS_STATE = working.SINCE, working.IS_STATE
"""Columns of events that are states of the table: when the state began, and that the row is a state."""


def with_ties_marked(events: DataFrame, kept: Changes) -> DataFrame:
    """Return the events with ``_check_untied`` BOOLEAN.

    False where another event of the same key and sequence has other values.
    """
    same = Window.partitionBy(*(F.col(k) for k in kept.keys), F.col(kept.sequence_by))
    values = {c: F.col(quoted(c)) for c in events.columns if not OURS.fullmatch(c)}
    content = row_json(values, events.schema)
    with_content = events.withColumn(working.CONTENT, content)
    untied = F.min(working.CONTENT).over(same).eqNullSafe(F.max(working.CONTENT).over(same))
    return with_content.withColumn("_check_untied", untied).drop(working.CONTENT)


def states(events: DataFrame, kept: Changes, snapshots: DataFrame | None, truncated: DataFrame) -> DataFrame:
    """Return the rows of the dimension for the keys of ``events``.

    Args:
        events: All good, untied events of each key.
        kept: The declaration of the dimension.
        snapshots: Every ``sequence_by`` value of the feed; None where its rows are not snapshots.
        truncated: One row, ``working.TRUNCATED``: the sequence of the last truncation, or NULL.

    Returns:
        The events' columns without ``except_columns``; for type 2 also ``__START_AT`` and ``__END_AT``.
    """
    marked = _with_ends(_after(events, kept, truncated), kept, snapshots)
    rows = _newest(marked, kept) if kept.type == 1 else _every(marked, kept)
    unwanted = [c for c in rows.columns if c in kept.except_columns or c.startswith((RESERVED, "_check_"))]
    return rows.drop(*unwanted)


def _after(events: DataFrame, kept: Changes, truncated: DataFrame) -> DataFrame:
    if not kept.apply_as_truncates:
        return events
    later = F.col(working.TRUNCATED).isNull() | (F.col(kept.sequence_by) > F.col(working.TRUNCATED))
    return events.crossJoin(truncated).where(later).drop(working.TRUNCATED)


def _with_ends(events: DataFrame, kept: Changes, snapshots: DataFrame | None) -> DataFrame:
    """Add ``DELETED`` (it deletes), ``NEXT`` (when its state ends) and ``GAP`` (a snapshot lacks the key)."""
    deleted = F.coalesce(F.expr(kept.apply_as_deletes or "false").cast("boolean"), F.lit(False))
    if IS_STATE in events.columns:
        # A state lacks the columns that are not kept; the delete predicate must not read them as NULL.
        deleted = deleted & F.col(IS_STATE).isNull()
    by_key = Window.partitionBy(*kept.keys).orderBy(kept.sequence_by)
    marked = events.withColumn(working.DELETED, deleted)
    marked = marked.withColumn(working.NEXT, F.lead(kept.sequence_by).over(by_key)).withColumn(
        working.GAP, F.lit(False)
    )
    if snapshots is None:
        return marked
    following = F.lead(kept.sequence_by).over(Window.orderBy(kept.sequence_by))
    marked = marked.join(snapshots.distinct().withColumn(working.FOLLOWING, following), kept.sequence_by)
    # A snapshot without the key came before its next event.
    gap = F.col(working.FOLLOWING).isNotNull() & (
        F.col(working.NEXT).isNull() | (F.col(working.FOLLOWING) < F.col(working.NEXT))
    )
    marked = marked.withColumn(working.GAP, gap)
    return marked.withColumn(
        working.NEXT, F.when(gap, F.col(working.FOLLOWING)).otherwise(F.col(working.NEXT))
    ).drop(working.FOLLOWING)


def _newest(marked: DataFrame, kept: Changes) -> DataFrame:
    # The last event of a key has no next event. GAP is true where a later snapshot lacks the key.
    return marked.where(f"{working.NEXT} IS NULL AND NOT {working.DELETED} AND NOT {working.GAP}")


def _every(events: DataFrame, kept: Changes) -> DataFrame:
    by_key = Window.partitionBy(*kept.keys).orderBy(kept.sequence_by)
    tracked = _tracked(events, kept)
    ended = (F.col(working.DELETED) | F.col(working.GAP)).alias("ended")
    before = F.lag(F.struct(ended, tracked.alias("tracked"))).over(by_key)
    begins = before.isNull() | before["ended"] | ~before["tracked"].eqNullSafe(tracked)
    run = F.sum(F.when(F.col(working.BEGINS), 1).otherwise(0)).over(by_key)
    marked = (
        events.withColumn(working.BEGINS, begins)
        .withColumn(working.STATE, run)
        .where(f"NOT {working.DELETED}")
    )
    everything = F.struct(*(F.col(quoted(c)) for c in marked.columns))
    found = marked.groupBy(*kept.keys, working.STATE).agg(
        F.max_by(everything, kept.sequence_by).alias("e"), F.min(_begun(events, kept)).alias(START_AT)
    )
    return found.select("e.*", START_AT, F.col(f"e.{working.NEXT}").alias(END_AT))


def _begun(events: DataFrame, kept: Changes) -> Column:
    at = F.col(kept.sequence_by)
    return F.coalesce(F.col(SINCE), at) if SINCE in events.columns else at


def _tracked(events: DataFrame, kept: Changes) -> Column:
    """Return, as text, the values whose change begins a new state."""
    columns = [c for c in events.columns if not OURS.fullmatch(c)]
    unseen = (*kept.keys, kept.sequence_by, *kept.track_history_except, *kept.except_columns)
    columns = [c for c in columns if c not in unseen]
    chosen = kept.track_history_columns or columns
    return row_json({c: F.col(quoted(c)) for c in chosen}, events.schema)
