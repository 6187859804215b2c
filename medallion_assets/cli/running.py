"""Commands that load what is new: once, for all of upstream again, or until stopped."""

import signal
import threading
from functools import partial
from typing import Annotated, cast

import typer

from medallion_assets.cli.app import Names, app, refuse, tables_of, the_lake
from medallion_assets.cli.verbs import do_to_each
from medallion_assets.declare.table import Table
from medallion_assets.delta.stream import Trigger
from medallion_assets.lake.paths import Lake
from medallion_assets.operations import VerbRequest
from medallion_assets.reports import show
from medallion_assets.runs.run import run_tables


@app.command()
def run(
    names: Names = None,
    trigger: Annotated[
        str, typer.Option(help="availableNow, or once: all in one micro-batch.")
    ] = "availableNow",
) -> None:
    """Load what is new into these tables, upstream first; exit 1 where a table or a blocking check failed."""
    if trigger not in ("availableNow", "once"):
        refuse(
            f"trigger {trigger!r} is neither availableNow nor once; for processing time: medallion stream. "
            "Spark's continuous trigger is not offered: it cannot write Delta tables, nor batches once."
        )
    _run(tables_of(names or []), the_lake(), cast(Trigger, trigger))


@app.command()
def refresh(
    names: Names = None,
    full: Annotated[bool, typer.Option("--full", help="Rebuild silver and gold from upstream.")] = False,
) -> None:
    """Load what is new into these tables; with --full rebuild them from all of upstream."""
    tables = tables_of(names or [])
    if not full:
        _run(tables, the_lake(), "availableNow")
    bronze = [table.key for table in tables if table.source]
    if bronze and names:
        refuse(
            f"{', '.join(bronze)}: bronze is not recomputed, since its landing files may be gone. "
            "Name the silver and gold tables to rebuild; nothing was changed."
        )
    do_to_each("full_refresh", [table.key for table in tables if not table.source], VerbRequest())


@app.command()
def stream(
    names: Names = None,
    every: Annotated[
        str, typer.Option(help="Processing time between micro-batches: 10s, 1m, 500ms.")
    ] = "10s",
) -> None:
    """Keep these tables up to date in one warm session, until stopped with Ctrl-C or SIGTERM."""
    from medallion_assets.orchestration.runless_events import announced
    from medallion_assets.runs.streaming import stream_tables
    from medallion_assets.session import start_session
    from medallion_assets.sources.intervals import seconds_of

    lake, stop = the_lake(), threading.Event()
    tables = tables_of(names or [])
    try:
        wait = seconds_of(every)
    except ValueError as error:
        refuse(str(error))
        raise
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    typer.echo(f"{len(tables)} tables, every {every}; Ctrl-C stops after the micro-batch under way")
    session = partial(start_session, lake.settings, stays=True)
    for moment in stream_tables(tables, lake, session, wait, stop):
        show.moment(moment)
        announced(moment.outcome, lake, moment.latency_seconds)
    typer.echo("stopped; files that are not loaded yet wait for the next start")


def _run(tables: list[Table], lake: Lake, trigger: Trigger) -> None:
    from medallion_assets.orchestration.runless_events import announced
    from medallion_assets.session import start_session

    outcomes = []
    for outcome in run_tables(tables, lake, lambda: start_session(lake.settings), trigger=trigger):
        outcomes.append(outcome)
        show.outcome(outcome)
        announced(outcome, lake)
    show.summary(outcomes)
    raise typer.Exit(0 if all(o.is_well for o in outcomes) else 1)
