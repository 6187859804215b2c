"""The command that writes simulated files into landing zones."""

from typing import Annotated

import typer

from medallion_assets.cli.app import app, refuse
from medallion_assets.settings import current_settings


@app.command()
def land(
    pipeline: str,
    files: Annotated[int, typer.Option(help="How many more files.")] = 1,
    all_: Annotated[bool, typer.Option("--all", help="All remaining files of the set.")] = False,
    continuous: Annotated[bool, typer.Option(help="One more file every few seconds, until stopped.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between files with --continuous.")] = 5.0,
    faults: Annotated[bool, typer.Option(help="Broken records among the good ones.")] = False,
    seed: int = 0,
) -> None:
    """Let simulated files arrive in a pipeline's landing zones."""
    from medallion_assets.simulators import SIMULATORS
    from medallion_assets.simulators.arrivals import land as land_files
    from medallion_assets.simulators.arrivals import land_forever

    if pipeline not in SIMULATORS:
        refuse(f"no simulator for {pipeline!r}; there are: {', '.join(SIMULATORS)}")
    landing = current_settings().landing
    if continuous:
        batches = land_forever(pipeline, landing, every, seed, faults)
    else:
        batches = iter([land_files(pipeline, landing, None if all_ else files, seed, faults)])
    try:
        for landed in batches:
            for path in landed:
                typer.echo(f"landed {path}")
    except KeyboardInterrupt:
        typer.echo("stopped")
