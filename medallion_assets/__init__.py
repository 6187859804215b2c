"""Incremental medallion lakehouses on Spark, Delta Lake and Dagster: the public names of the package.

Declarations (``Pipeline``, ``stream``, ``static``, ``expect`` ...), the notebook loaders, the settings and
``build_definitions`` are stable; every other module is the package's own. Each name is imported on first
use, so that reading a setting costs no Spark and no Dagster.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medallion_assets.declare import (
        Layout,
        Pipeline,
        Table,
        accepted_values,
        expect,
        keep_changes,
        null_rate,
        references,
        row_count,
        static,
        stream,
        unique,
    )
    from medallion_assets.lake.resources import Resource
    from medallion_assets.operations.reset import cleanup, resources
    from medallion_assets.orchestration.build import build_definitions
    from medallion_assets.reports.notebook import run
    from medallion_assets.reports.view import Watched
    from medallion_assets.reports.watch import watch
    from medallion_assets.settings import Settings, current_settings
    from medallion_assets.sources import (
        CopyResult,
        LoadResult,
        Source,
        autoload_to_table,
        bad_records,
        copy_into,
        create_table_as,
        sql,
    )

__all__ = [
    "CopyResult",
    "Layout",
    "LoadResult",
    "Pipeline",
    "Resource",
    "Settings",
    "Source",
    "Table",
    "Watched",
    "accepted_values",
    "autoload_to_table",
    "bad_records",
    "build_definitions",
    "cleanup",
    "copy_into",
    "create_table_as",
    "current_settings",
    "expect",
    "keep_changes",
    "null_rate",
    "references",
    "resources",
    "row_count",
    "run",
    "sql",
    "static",
    "stream",
    "unique",
    "watch",
]
_MODULES = (
    "declare",
    "sources",
    "settings",
    "operations.reset",
    "reports.notebook",
    "reports.watch",
    "orchestration.build",
)


def __getattr__(name: str) -> Any:
    """Return a public name from the module that defines it.

    Raises:
        AttributeError: The package has no such public name.
    """
    if name in __all__:
        for module in _MODULES:
            found = import_module(f"{__name__}.{module}")
            if hasattr(found, name):
                return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
