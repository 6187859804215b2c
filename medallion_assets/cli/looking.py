"""Commands that show the state of tables and files; they read logs and ledgers only."""

import json
from typing import Annotated, Any

import typer

from medallion_assets.cli.app import Names, app, table_of, tables_of, the_lake
from medallion_assets.reports import (
    SHOWN,
    files_of,
    history_of,
    show,
    statuses,
)


@app.command()
def status(
    names: Names = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Show every table: its version, rows, quarantine, last run and checks."""
    found = statuses(tables_of(names or []), the_lake())
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        show.table("Tables", [_brief(s) for s in found])


@app.command()
def history(table: str, limit: int = 20) -> None:
    """Show a table's commits, newest first."""
    show.table(f"History of {table}", history_of(table_of(table), the_lake(), limit))


@app.command()
def files(pipeline: str, as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
    """Show a pipeline's file ledger: every file seen, with its status and counts."""
    found = [row for table in tables_of([pipeline]) if table.source for row in files_of(table, the_lake())]
    if as_json:
        typer.echo(json.dumps(found, indent=2, default=str))
    else:
        show.table(f"Files of {pipeline}", [{k: row[k] for k in ("table", *SHOWN)} for row in found])


def _brief(status: dict[str, Any]) -> dict[str, Any]:
    key = f"{status['pipeline']}/{status['layer']}/{status['table']}"
    kept = ("version", "rows", "quarantined", "last_run", "checks")
    return {"table": key} | {name: status[name] for name in kept}
