"""The project a command is run in: which pipelines it declares, and where that is written.

``MEDALLION_PIPELINES``, or ``pipelines`` under ``[tool.medallion]`` in the nearest ``pyproject.toml`` above
the current folder, names a module. Its ``PIPELINES`` (a mapping or a list) are the project's pipelines;
without that name, every ``Pipeline`` of the module.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from medallion_assets.declare.pipeline import Pipeline
from medallion_assets.settings import current_settings, project_folder


class NoPipelines(ValueError):
    """The command was not run in a project, or its module declares no pipeline; nothing was read."""


def project_pipelines() -> dict[str, Pipeline]:
    """Return the pipelines of the project the current folder is in, by name.

    Raises:
        NoPipelines: No setting names a module, the module cannot be imported, or it has no pipeline.
    """
    name = current_settings().pipelines
    if not name:
        raise NoPipelines(
            f"no pipelines are declared for {Path.cwd()}: run this in a project whose pyproject.toml has "
            '[tool.medallion] pipelines = "package.module", set MEDALLION_PIPELINES, or make a project with '
            "`medallion new project NAME`."
        )
    folder = str(project_folder() or Path.cwd())
    if folder not in sys.path:
        # A console script has its own folder on the path, not the current one.
        sys.path.insert(0, folder)
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise NoPipelines(
            f"the module {name!r}, which the setting `pipelines` names, is not in {folder} and not installed."
        ) from error
    declared = getattr(module, "PIPELINES", None)
    if declared is None:
        declared = [value for value in vars(module).values() if isinstance(value, Pipeline)]
    values = list(declared.values() if isinstance(declared, Mapping) else declared)
    if not values:
        raise NoPipelines(f"the module {name!r} has no Pipeline: import those of the project in it.")
    return {pipeline.name: pipeline for pipeline in values}
