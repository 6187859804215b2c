"""``watch``: a table's new rows and its query's progress as they come, read from the table's Delta log.

It is a streaming query of its own: it holds no lease, writes nothing into the lake, and its checkpoint is a
temporary one that Spark deletes as the query stops.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from medallion_assets.declare.errors import DeclarationError
from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import table_of_quarantine
from medallion_assets.delta.stream import Calls
from medallion_assets.lake.paths import Lake
from medallion_assets.operations.requests import many
from medallion_assets.reports import show
from medallion_assets.reports.view import View, ViewQuery, Watched
from medallion_assets.session import start_session
from medallion_assets.settings import current_settings
from medallion_assets.sources.load_target import NAME, NamedTable
from medallion_assets.storage import path_of

LOOKS_EVERY = 0.2
"""Seconds between two looks at the query's progress."""

SAME_TABLE_EVERY = 5.0
"""Seconds between two looks at whether the table is still the same one; each reads the Delta log."""
SCHEMA_CHANGED = ("DELTA_SCHEMA_CHANGED", "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE")
"""Delta ends a stream where columns join the table; one that starts after that commit reads them."""

Until = Callable[[Watched], bool]


def watch(
    table: Table | str,
    *,
    query: ViewQuery | None = None,
    quarantine: bool = False,
    format: Literal["console", "memory"] = "console",  # noqa: A002
    name: str = "",
    from_start: bool = False,
    limit: int = 20,
    seconds: float | None = None,
    until: Until | None = None,
    spark: SparkSession | None = None,
) -> Watched:
    """Show a table's new rows and its query's progress as they come, until it is stopped.

    Nothing is written to the lake, and no run waits for it. It ends after ``seconds``, where ``until`` says
    so, or with Ctrl-C (in a notebook: interrupt the cell).

    Args:
        table: A declared table, the name of any table of the lake (``pipeline.layer.table``), or the path of
            a Delta table.
        query: What to show instead of the rows: gets them as a streaming frame, and returns another, joined,
            by window or aggregated. Printed are the groups that changed; a view in memory has all of them.
        quarantine: Watch the table's quarantine instead of the table.
        format: ``console`` prints the rows. ``memory`` keeps all of them in the temporary view ``name``, and
            gives control back at once unless ``seconds`` or ``until`` is given; ``stop()`` of the result
            ends it.
        name: The view's name.
        from_start: Begin with the rows the table has, rather than with those that come.
        limit: Rows printed of each micro-batch at most; the others are counted.
        seconds: How long.
        until: Asked again and again with what was shown; true ends the watch.
        spark: The session; the project's own where it is None.

    Returns:
        What was shown, in rows and micro-batches.

    Raises:
        DeclarationError: No such table; a format or name that cannot be.
        StreamingQueryException: The table was removed or replaced while it was watched.
    """
    _refuse(format, name)
    lake = Lake(current_settings())
    seen = Watched(*_place_of(table, quarantine, lake))
    view = View(table if isinstance(table, Table) and not quarantine else None, lake, limit, name, query)
    there = log.version(seen.path)
    after = None if from_start else there
    ends = None if seconds is None else time.monotonic() + seconds

    def is_over() -> bool:
        return (ends is not None and time.monotonic() >= ends) or (until is not None and until(seen))

    if not log.exists(seen.path):
        show.console.print(f"{seen.table} has no commit yet; waiting for its first")
    while not log.exists(seen.path):
        if is_over():
            return seen
        time.sleep(LOOKS_EVERY)
    began = time.monotonic()
    session = spark or start_session(lake.settings)
    # The checkpoint is to go also where the query failed.
    session.conf.set("spark.sql.streaming.forceDeleteTempCheckpointLocation", "true")
    calls, waits = Calls(session), format == "console" or seconds is not None or until is not None
    try:
        view.start(session, seen, after, calls)
        # What a session takes to start is no part of the seconds.
        ends = None if ends is None else ends + time.monotonic() - began
        if waits:
            _follow(seen, view, is_over, lambda at: view.start(session, seen, at, calls))
    except KeyboardInterrupt:
        show.console.print(f"stopped: {many(seen.rows, 'row')} in {seen.batches} batches")
    finally:
        if waits:
            seen.stop()
            calls.hang_up()
    return seen


def _refuse(sink: str, name: str) -> None:
    if sink not in ("console", "memory"):
        raise DeclarationError(f"format {sink!r} is neither console nor memory; nothing was started")
    if (sink == "memory") != bool(NAME.fullmatch(name)):
        raise DeclarationError(
            f'format="{sink}" and name {name!r}: memory needs the name of its view (letters, digits, _), '
            "console takes none; nothing was started"
        )


def _place_of(table: Table | str, quarantine: bool, lake: Lake) -> tuple[str, Path]:
    """Return a table's name and path, or its quarantine's."""
    word = " (quarantine)" if quarantine else ""
    if isinstance(table, Table):
        return table.key + word, lake.quarantine(table) if quarantine else lake.path(table)
    if log.exists(path_of(table)):
        if quarantine:
            raise DeclarationError(f"{table}: name the table, or give the path of its quarantine")
        return table, path_of(table)
    named = NamedTable.of(table.replace("/", "."))
    path = lake.root / named.pipeline / named.layer / named.name
    if not log.exists(path):
        raise DeclarationError(
            f"no Delta table is called {table!r} and none lies at {path}; a declared table may be watched "
            "before its first run, by its declaration"
        )
    if not quarantine:
        return named.key, path
    folder = lake.root / named.pipeline / "quarantine"
    both = (folder / f"{named.layer}_{named.name}", folder / named.name)
    own = [p for p in both if log.exists(p) and table_of_quarantine(p) == named.key]
    return named.key + word, (own or both[named.layer == "bronze" :])[0]


def _follow(
    seen: Watched, view: View, is_over: Callable[[], bool], again: Callable[[int | None], None]
) -> None:
    """Print what comes until it is over; a query that columns ended starts again after what was shown."""
    shown, first, looked = -1, log.table_id(seen.path), time.monotonic()
    while not is_over():
        assert seen.query is not None
        active = seen.query.isActive
        for progress in _since(seen.query, shown):
            shown = progress.batchId
            view.tell(seen, progress)
        if time.monotonic() - looked > SAME_TABLE_EVERY:
            # Delta's stream waits in silence where another table has fewer commits than it has read.
            if log.table_id(seen.path) != first:
                raise _ended(seen, "another table took its place")
            looked = time.monotonic()
        if not active:
            error = seen.query.exception()
            # What a query counted so far is in the state that ended with it.
            if error is None or view.query or not any(code in str(error) for code in SCHEMA_CHANGED):
                raise _ended(seen, str(error or "its query was stopped")) from error
            again(seen.version)
            shown = -1
        time.sleep(LOOKS_EVERY)


def _ended(seen: Watched, why: str) -> StreamingQueryException:
    """Return why a query ended by itself, in one paragraph; Spark's own message has its whole plan."""
    why = why.splitlines()[0].strip() if log.exists(seen.path) else f"no table lies at {seen.path} any more"
    return StreamingQueryException(
        f"{seen.table} could not be watched any longer: {why}. "
        f"{many(seen.rows, 'row')} of it were shown, and nothing was written. If the table was removed or "
        "replaced, watch it again after its next run"
    )


def _since(query: StreamingQuery, shown: int) -> Iterator[StreamingQueryProgress]:
    yield from (p for p in query.recentProgress if p.batchId > shown and p.durationMs.get("addBatch"))
