"""Commands that show, replay and discard quarantined rows."""

from typing import Annotated

import typer

from medallion_assets.cli.app import Names, app, table_of, tables_of, the_lake
from medallion_assets.cli.verbs import DryRun, Files, do_to_each
from medallion_assets.operations import VerbRequest
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.reports import quarantine_counts, quarantine_rows, show
from medallion_assets.sources.quarantine import REASONS

quarantine = typer.Typer(no_args_is_help=True, help="Rows and records that could not be loaded, and why.")
app.add_typer(quarantine, name="quarantine")

Ids = Annotated[list[str] | None, typer.Option("--id", help="An entry: its id, or the start of it.")]
Rules = Annotated[list[str] | None, typer.Option("--rule", help="Rows that broke this rule.")]
Reasons = Annotated[list[str] | None, typer.Option("--reason", help=f"{', '.join(REASONS)}; or rescued.")]
Where = Annotated[str, typer.Option(help="SQL over the quarantine's columns.")]


@quarantine.command("list")
def list_counts(names: Names = None) -> None:
    """Quarantined rows by table and rule."""
    lake = the_lake()
    counts = [row for t in tables_of(names or []) for row in quarantine_counts(t, lake)]
    show.table("Quarantine", counts)


@quarantine.command("show")
def show_rows(table: str, limit: int = 20, rule: str = "") -> None:
    """A table's quarantined rows, newest first."""
    show.table(f"Quarantine of {table}", quarantine_rows(table_of(table), the_lake(), limit, rule))


@quarantine.command()
def replay(
    names: Names = None,
    id_: Ids = None,
    rule: Rules = None,
    reason: Reasons = None,
    file: Files = None,
    where: Where = "",
    fix: Annotated[str, typer.Option(help="column = SQL expression, separated by commas.")] = "",
    dry_run: DryRun = False,
) -> None:
    """Judge open rows again by today's rules, corrected by --fix; each good one reaches its table once."""
    choice = _choice(id_, rule, reason, file, where)
    do_to_each("replay", names, VerbRequest(dry_run, choice, fix))


@quarantine.command()
def discard(
    names: Names = None,
    why: Annotated[str, typer.Option(help="The reason, stored with the rows.")] = "",
    id_: Ids = None,
    rule: Rules = None,
    reason: Reasons = None,
    file: Files = None,
    where: Where = "",
    dry_run: DryRun = False,
) -> None:
    """Close open rows: they stay in quarantine with the reason, and are not tried again."""
    choice = _choice(id_, rule, reason, file, where)
    do_to_each("discard", names, VerbRequest(dry_run, choice, why=why))


def _choice(
    ids: list[str] | None,
    rules: list[str] | None,
    reasons: list[str] | None,
    files: list[str] | None,
    where: str,
) -> QuarantineFilter:
    return QuarantineFilter(
        tuple(ids or ()), tuple(rules or ()), tuple(reasons or ()), tuple(files or ()), where
    )
