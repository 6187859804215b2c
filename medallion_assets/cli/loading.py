"""Commands that load files into tables outside the pipelines."""

from typing import Annotated

import typer

from medallion_assets.cli.app import app, refuse
from medallion_assets.reports import result_row, show


@app.command("copy-into")
def copy_into_table(
    table: str,
    source: str,
    source_format: str,
    files: Annotated[list[str] | None, typer.Option(help="Names below the source (FILES).")] = None,
    pattern: Annotated[str, typer.Option(help="A glob for file names (PATTERN).")] = "",
    force: Annotated[bool, typer.Option(help="Append files again that were loaded before.")] = False,
    merge_schema: Annotated[bool, typer.Option(help="New columns join the table.")] = False,
    select: Annotated[list[str] | None, typer.Option(help="A column as SQL; repeat for more.")] = None,
    validate: Annotated[str, typer.Option(help="A number of rows, or ALL: judge, write nothing.")] = "",
    option: Annotated[list[str] | None, typer.Option(help="key=value for reader or source.")] = None,
) -> None:
    """Append a source's files to a table, each once; what is malformed goes to its quarantine."""
    from medallion_assets.sources import copy_into

    told = dict(pair.partition("=")[::2] for pair in option or [])
    try:
        result = copy_into(table, source, source_format, files=files or (), pattern=pattern, force=force,
                           merge_schema=merge_schema, select=select or (), validate=validate or 0,
                           format_options=told)  # fmt: skip
    except ValueError as error:
        refuse(str(error))
        raise
    except RuntimeError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    show.table(f"COPY INTO {table}", [result_row(result)])
    if result.message:
        typer.echo(f"Nothing was read: {result.message}.")
