"""The command that begins a project of a person's own."""

import keyword
import re
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from jinja2 import Environment, StrictUndefined

from medallion_assets.cli.app import app, refuse

new = typer.Typer(no_args_is_help=True, help="Begin something new.")
app.add_typer(new, name="new")

PROJECT = {
    "pyproject.toml": "pyproject.toml",
    "Makefile": "Makefile",
    "README.md": "README.md",
    "workspace.yaml": "workspace.yaml",
    "gitignore": ".gitignore",
    "package/__init__.py": "{name}/__init__.py",
    "package/pipeline.py": "{name}/pipeline.py",
    "package/bronze.py": "{name}/bronze.py",
    "package/silver.py": "{name}/silver.py",
    "package/gold.py": "{name}/gold.py",
    "package/definitions.py": "{name}/definitions.py",
    "tests/test_project.py": "tests/test_{name}.py",
    "sample/orders-1.json": "landing/{name}/orders/orders-1.json",
}
"""Templates below ``templates/project``, and the file each becomes."""


@new.command()
def project(
    name: str,
    folder: Annotated[Path | None, typer.Option(help="Where to; ./NAME without it.")] = None,
) -> None:
    """Write a Dagster project with a pipeline of its own, sample files, tests and a Makefile."""
    target = folder or Path(name)
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name) or keyword.iskeyword(name):
        refuse(f"{name!r} is no name for a project: it becomes a Python package; use a-z, 0-9 and _ only")
    if find_spec(name) is not None:
        refuse(f"{name!r} is the name of a module that is installed already; choose another")
    if target.exists() and any(target.iterdir()):
        refuse(f"{target} exists and is not empty; nothing was written")
    templates = files("medallion_assets") / "templates"
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    major, minor, *_ = version("medallion-assets").split(".")
    words = {"name": name, "version": f"{major}.{minor}", "next_version": f"{major}.{int(minor) + 1}"}
    for template, path in PROJECT.items():
        file = target / path.format(name=name)
        file.parent.mkdir(parents=True, exist_ok=True)
        text = (templates / "project" / f"{template}.jinja").read_text("utf-8")
        file.write_text(environment.from_string(text).render(words), "utf-8")
    (target / "dagster.yaml").write_text((templates / "dagster.yaml").read_text("utf-8"), "utf-8")
    typer.echo(f"{target} is a project now; `make demo` in it fills its tables, `make test` passes its tests")
