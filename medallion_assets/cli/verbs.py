"""A command for each operation; --dry-run reports what it would do."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from medallion_assets.cli.app import (
    Names,
    app,
    refuse,
    show_resources,
    tables_at,
    tables_of,
    the_lake,
    titled,
)
from medallion_assets.operations import VerbRequest, VerbResult, carry_out
from medallion_assets.reports import show

DryRun = Annotated[bool, typer.Option("--dry-run", help="Report what it would do; change nothing.")]
Files = Annotated[
    list[str] | None, typer.Option("--file", help="A landing file: its path, or the end of it.")
]


@app.command()
def plan(names: Names = None) -> None:
    """Say what the next run would take, what changed in the code, and which command that needs."""
    do_to_each("plan", names, VerbRequest())


@app.command("full_refresh")
def full_refresh(names: Names = None, dry_run: DryRun = False) -> None:
    """Rebuild silver and gold tables from all of upstream, in one commit each."""
    do_to_each("full_refresh", names or [t.key for t in tables_of([]) if not t.source], VerbRequest(dry_run))


@app.command()
def undo(names: Names = None, dry_run: DryRun = False) -> None:
    """Restore what the last full refresh replaced."""
    do_to_each("undo", names, VerbRequest(dry_run))


@app.command("reset_checkpoint")
def reset_checkpoint(names: Names = None, dry_run: DryRun = False) -> None:
    """Delete checkpoints and keep the data; the next run continues after what the tables have committed."""
    do_to_each("reset_checkpoint", names, VerbRequest(dry_run))


@app.command()
def reprocess(
    names: Names = None,
    file: Files = None,
    since: Annotated[str, typer.Option(help="ISO 8601 time: files that arrived from then on.")] = "",
    until: Annotated[str, typer.Option(help="ISO 8601 time: files that arrived before it.")] = "",
    event_time: Annotated[
        str, typer.Option(help="A column, or SQL: --since and --until are of its values, not of arrival.")
    ] = "",
    dry_run: DryRun = False,
) -> None:
    """Read landing files again and replace the rows they gave before."""
    if not file and not since and not until:
        refuse("name the files with --file, or the time with --since and --until; nothing was changed")
    asked = VerbRequest(dry_run, files=tuple(file or ()), since=since, until=until, event_time=event_time)
    do_to_each("reprocess", names, asked)


@app.command()
def validate(names: Names = None) -> None:
    """Check landed files that are not loaded yet against schema and expectations; write nothing."""
    do_to_each("validate", names or [t.key for t in tables_of([]) if t.source], VerbRequest())


@app.command()
def maintain(
    names: Names = None,
    days: Annotated[float, typer.Option(help="Keep versions and files younger than this.")] = 30,
    dry_run: DryRun = False,
) -> None:
    """Compact small files and delete old versions, never one that a stream still needs."""
    do_to_each("maintain", names, VerbRequest(dry_run, days=days))


@app.command()
def doctor(
    names: Names = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Say what is wrong with each table's stream, which command repairs it, and its numbers."""
    do_to_each("doctor", names, VerbRequest(), as_json, with_numbers=True)


@app.command()
def audit(names: Names = None) -> None:
    """Count every landing file and every row again, and compare the counts."""
    do_to_each("audit", names, VerbRequest())


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
    do_to_each("accept_changes", names, VerbRequest(dry_run, why=why))


@app.command()
def reset(
    names: Names = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them.")] = False,
    landing: Annotated[bool, typer.Option("--landing", help="Delete the landing files as well.")] = False,
) -> None:
    """Delete tables and all tables made from them; without --yes only list what would be deleted."""
    do_to_each("reset", names, VerbRequest(dry_run=not yes, landing=landing))


@app.command()
def cleanup(
    yes: Annotated[bool, typer.Option("--yes", help="Remove them.")] = False,
    landing: Annotated[
        bool, typer.Option("--landing", help="Remove the landing files that `land` simulated as well.")
    ] = False,
) -> None:
    """Remove what the runs and loads of this lake made, and nothing else; without --yes only list it."""
    from medallion_assets.operations.reset import cleanup as remove
    from medallion_assets.storage.lease import NoSoleUse, TableBusy

    try:
        found = remove(the_lake(), yes=yes, landing=landing)
    except (TableBusy, NoSoleUse) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    show_resources("Removed" if yes else "Would be removed, with --yes,", found)


def do_to_each(
    verb: str,
    names: list[str] | None,
    request: VerbRequest,
    as_json: bool = False,
    with_numbers: bool = False,
) -> None:
    """Do the verb to each table and print the results; exit 1 where one is not well."""
    from medallion_assets.session import start_session

    settings = the_lake().settings
    results = [
        carry_out(verb, table, lake, lambda: start_session(settings), request)
        for table, lake in tables_at(names or [])
    ]
    if as_json:
        typer.echo(json.dumps([asdict(result) for result in results], indent=2, default=str))
    else:
        title = titled(verb) + (" (dry run)" if request.dry_run else "")
        show.table(title, [_row(result) for result in results])
    if with_numbers and not as_json:
        show.table("Numbers", [{"table": r.table, **r.found} for r in results if r.found])
    raise typer.Exit(0 if all(result.well for result in results) else 1)


def _row(result: VerbResult) -> dict[str, object]:
    return {
        "table": result.table,
        "": "ok" if result.well else "FAILED",
        "what": result.does,
        "reads": result.reads,
        "writes": result.writes,
        "downstream": ", ".join(result.downstream),
    }
