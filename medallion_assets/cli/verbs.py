"""A command for each verb: what it did to each table, or with --dry-run what it would do."""

from collections.abc import Iterable
from typing import Annotated

import typer

from medallion_assets.cli.app import Names, app, refuse, tables_of, the_lake
from medallion_assets.declare.table import Table
from medallion_assets.operations import VERBS, VerbRequest, VerbResult
from medallion_assets.operations.requests import Spark
from medallion_assets.reports import show

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would do; do nothing.")]
Files = Annotated[list[str] | None, typer.Option("--file", help="A landing file, or how its path ends.")]


@app.command()
def plan(names: Names = None) -> None:
    """What the next run would take, and which verb changed code asks for."""
    carry_out("plan", names, VerbRequest())


@app.command("full_refresh")
def full_refresh(names: Names = None, dry_run: DryRun = False) -> None:
    """Make silver and gold tables anew from all of upstream, in one commit each."""
    tables = [t for t in tables_of(names or []) if names or not t.source]
    carry_out("full_refresh", [t.key for t in tables], VerbRequest(dry_run))


@app.command()
def undo(names: Names = None, dry_run: DryRun = False) -> None:
    """Put back what the last full refresh replaced."""
    carry_out("undo", names, VerbRequest(dry_run))


@app.command("reset_checkpoint")
def reset_checkpoint(names: Names = None, dry_run: DryRun = False) -> None:
    """Drop checkpoints and keep the data; the next run goes on where the tables say they stand."""
    carry_out("reset_checkpoint", names, VerbRequest(dry_run))


@app.command()
def reprocess(
    names: Names = None,
    file: Files = None,
    since: Annotated[str, typer.Option(help="ISO 8601: files discovered from then on.")] = "",
    dry_run: DryRun = False,
) -> None:
    """Read landing files again, and put their rows in the place of those they gave before."""
    if not file and not since:
        refuse("name the files with --file, or the time with --since; nothing was changed")
    carry_out("reprocess", names, VerbRequest(dry_run, files=tuple(file or ()), since=since))


@app.command()
def validate(names: Names = None) -> None:
    """Judge what has landed and is not taken yet, by schema and rules; nothing is written."""
    carry_out("validate", [t.key for t in tables_of(names or []) if t.source], VerbRequest())


@app.command()
def maintain(
    names: Names = None,
    days: Annotated[float, typer.Option(help="Versions and files younger than this stay.")] = 30,
    dry_run: DryRun = False,
) -> None:
    """Put small files together and let old versions go, never one that a stream still needs."""
    carry_out("maintain", names, VerbRequest(dry_run, days=days))


@app.command()
def doctor(names: Names = None) -> None:
    """How each table's stream is, what is missing, and the verb that mends it."""
    carry_out("doctor", names, VerbRequest())


@app.command()
def audit(names: Names = None) -> None:
    """Count every landing file and every row once more, and hold them against each other."""
    carry_out("audit", names, VerbRequest())


@app.command("accept_changes")
def accept_changes(
    names: Names = None,
    why: Annotated[
        str, typer.Option(help="Why rows were removed by hand; goes into the table's history.")
    ] = "",
    dry_run: DryRun = False,
) -> None:
    """Count rows that a DELETE by hand took out as removed by hand, so that the books hold again."""
    if not names or not why.strip():
        refuse("name the tables, and say why with --why; nothing was changed")
    carry_out("accept_changes", names, VerbRequest(dry_run, why=why))


@app.command()
def reset(
    names: Names = None,
    yes: Annotated[bool, typer.Option("--yes", help="Really remove them.")] = False,
    landing: Annotated[bool, typer.Option("--landing", help="The landing files as well.")] = False,
) -> None:
    """Remove tables and all that is made from them; without --yes only say what would go."""
    carry_out("reset", names, VerbRequest(dry_run=not yes, landing=landing))


def carry_out(verb: str, names: list[str] | None, asked: VerbRequest) -> None:
    """Does the verb to each table and prints what it told; exit 1 where a table is not well."""
    from medallion_assets.session import start_session

    lake = the_lake()
    told = list(_told(verb, tables_of(names or []), asked, lambda: start_session(lake.settings)))
    show.table(verb + (" (dry run)" if asked.dry_run else ""), [_row(t) for t in told])
    raise typer.Exit(0 if all(t.well for t in told) else 1)


def _told(verb: str, tables: Iterable[Table], asked: VerbRequest, spark: Spark) -> Iterable[VerbResult]:
    lake = the_lake()
    for table in tables:
        try:
            yield VERBS[verb](table, lake, spark, asked)
        except (RuntimeError, ValueError) as error:
            yield VerbResult(table.key, str(error), well=False)


def _row(told: VerbResult) -> dict[str, object]:
    return {
        "table": told.table,
        "": "ok" if told.well else "FAILED",
        "what": told.does,
        "reads": told.reads,
        "writes": told.writes,
        "downstream": ", ".join(told.downstream),
    }
