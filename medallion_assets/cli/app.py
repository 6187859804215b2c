"""The command line's root, and how a command finds the tables its words mean."""

from typing import Annotated

import typer

from medallion_assets.declare.errors import UnknownTable
from medallion_assets.declare.order import chosen
from medallion_assets.declare.table import Table
from medallion_assets.lake.paths import Lake
from medallion_assets.project import NoPipelines, project_pipelines
from medallion_assets.settings import current_settings

app = typer.Typer(no_args_is_help=True, add_completion=False, help="An open medallion lakehouse.")
USAGE_ERROR = 2
Names = Annotated[list[str] | None, typer.Argument(metavar="[PIPELINE | TABLE]...")]


def the_lake() -> Lake:
    """Return the lake the environment names."""
    return Lake(current_settings())


def tables_of(names: list[str]) -> list[Table]:
    """Return the tables these pipelines and keys mean, upstream first; an unknown one ends the command."""
    try:
        return chosen(project_pipelines(), names)
    except (UnknownTable, NoPipelines) as error:
        refuse(str(error))
        raise


def table_of(name: str) -> Table:
    """Return the one table a key means; ends the command where it means several."""
    found = tables_of([name])
    if len(found) != 1:
        refuse(f"{name!r} is a pipeline; name one of its tables: {', '.join(t.key for t in found)}")
    return found[0]


def refuse(why: str) -> None:
    """Ends the command as misused."""
    typer.echo(why, err=True)
    raise typer.Exit(USAGE_ERROR)
