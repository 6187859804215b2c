"""A Spark cluster: ship the package to executors, and ask them what they need before anything is written."""

import atexit
import io
import re
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from pyspark.sql import SparkSession

from medallion_assets.settings import Settings, project_folder
from medallion_assets.storage import ObjectPath, storage_of

NEEDED = ("delta", "deltalake", "fastavro", "filelock", "msgspec", "numpy", "pandas", "platformdirs",
          "pyarrow", "pydantic", "pydantic_settings", "pyorc", "sqlglot")  # fmt: skip
"""What the modules that run on executors import, and pyspark's own workers; pyspark comes with Spark."""

BY_CORES = {
    "spark.sql.shuffle.partitions": 1 << 30,
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": 1 << 30,
    # By default 50 tasks to read the log of a table, whose state fits one for the first 100,000 files.
    "spark.databricks.delta.snapshotPartitions": 50,
}
"""Options that are the number of the cluster's cores, with their largest value."""

PATIENCE = 30
"""Seconds after which a person is told that no executor came."""

PROBE = "_seen_by_executors-"
"""Beginning of the name of the file that each executor has to find in a lake on a disk."""


_SHARED: set[tuple[str, Path]] = set()
"""Folders that executors have to see, by application."""

_SHIPPED: set[str] = set()
"""Applications whose executors get the package."""

T = TypeVar("T")
R = TypeVar("R")


class ExecutorsUnfit(RuntimeError):
    """Executors lack Python, a package or a folder; nothing was committed."""


def join_cluster(spark: SparkSession, settings: Settings) -> None:
    """Ship the package to the executors, and try what they need: a Python with its packages, and the lake.

    Raises:
        ExecutorsUnfit: An executor cannot do its work; the message says what it lacks.
    """
    if spark.sparkContext.applicationId not in _SHIPPED:
        path = list(sys.path)
        spark.sparkContext.addPyFile(str(_shipped(settings, _temporary())))
        # The files themselves come first in this process.
        sys.path[:] = path
        _SHIPPED.add(spark.sparkContext.applicationId)
    require_shared(spark, settings.lake)
    waits = threading.Timer(PATIENCE, _tell_of_waiting, (settings.spark_master,))
    waits.daemon = True
    waits.start()
    try:
        found = _asked(spark)
    except Exception as error:
        raise not_shared(error) or _unfit(settings, error) from error
    finally:
        waits.cancel()
    missing = sorted({name for names, _ in found for name in names})
    if missing:
        where = ", ".join(sorted({python for names, python in found if names}))
        raise ExecutorsUnfit(
            f"executors of the Spark master {settings.spark_master!r} cannot import {', '.join(missing)}: "
            f"their Python is {where}. Nothing was read or written. Install medallion-assets or its "
            "dependencies for that Python, or name another one that all of them have with PYSPARK_PYTHON "
            "(a packed environment can be shipped with spark.archives in MEDALLION_SPARK_CONF)."
        )


def fit_to_cores(spark: SparkSession, settings: Settings) -> None:
    """Set numbers of partitions to the number of cores that the cluster has now, unless the user set them."""
    cores = max(2, spark.sparkContext.defaultParallelism)
    for name, most in BY_CORES.items():
        if name not in settings.spark_conf:
            spark.conf.set(name, str(min(cores, most)))


def _tell_of_waiting(master: str) -> None:
    sys.stderr.write(
        f"The Spark master {master} has given this run no executor for {PATIENCE} s: it waits until another "
        "application ends or workers join. On a standalone cluster spark.cores.max in MEDALLION_SPARK_CONF "
        "leaves cores to others; an executor's memory (spark.executor.memory) has to fit a worker's.\n"
    )
    sys.stderr.flush()


def unreachable(master: str, error: BaseException) -> ExecutorsUnfit:
    """Return the error to raise where no session could be started on a cluster."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    cause = next((line for line in reversed(lines) if line.startswith("Caused by: ")), lines[0])
    return ExecutorsUnfit(
        f"no session could be started on the Spark master {master!r}: {cause[:500]} Nothing was read or "
        "written. Look whether the master runs and its address is right, and whether its machines reach "
        "this one (spark.driver.host in MEDALLION_SPARK_CONF names the address they are told)."
    )


def is_cluster(spark: SparkSession) -> bool:
    """Return true where executors are other processes than the driver."""
    java: Any = spark.sparkContext._jsc
    return not java.isLocal()


def on_executors(spark: SparkSession, items: Sequence[T], work: Callable[[T], R]) -> list[R]:
    """Return what a function makes of each item, in their order; each item is a task."""
    return spark.sparkContext.parallelize(items, max(1, len(items))).map(work).collect()


def require_shared(spark: SparkSession, folder: Path) -> None:
    """Let each executor fetch a file of a folder from its own disk before its next task, or fail it.

    Executors that come later, in the midst of a batch, do so too. Without it one that lacks the mount makes
    the folder on its own disk, and a commit names data files that nobody else finds.
    """
    app = spark.sparkContext.applicationId
    known = any((app, above) in _SHARED for above in (folder, *folder.parents))
    if known or isinstance(folder, ObjectPath) or not is_cluster(spark):
        return
    probe, content = str(folder / f"{PROBE}{uuid4().hex}.jar"), io.BytesIO()
    with zipfile.ZipFile(content, "w") as jar:
        jar.writestr("medallion", "")
    storage = storage_of(probe)
    storage.put(probe, content.getvalue())
    atexit.register(storage.delete, probe)
    java: Any = spark.sparkContext._jsc
    # Spark's scheme for files that are on each machine already.
    java.addJar(f"local:{probe}")
    _SHARED.add((app, folder))


NOT_SHIPPED = (
    " Executors get the package of MEDALLION_PIPELINES and what was imported from beside it when the session "
    "started: name other modules in spark.submit.pyFiles (MEDALLION_SPARK_CONF), or install them for the "
    "executors' Python."
)
"""What to do where an executor cannot import a module."""


def not_shared(error: BaseException) -> ExecutorsUnfit | None:
    """Return the error to raise where an executor did not find a folder; None where another thing failed."""
    found = re.search(rf"(/[^\n]*)/{PROBE}", str(error))
    return unseen(found[1]) if found else None


def unseen(folder: str) -> ExecutorsUnfit:
    """Return the error about a folder that an executor does not see as this process does."""
    return ExecutorsUnfit(
        f"an executor of the Spark cluster does not see what this process sees in {folder}: what it wrote "
        "there would be lost. Nothing was committed and nothing is lost. Put the folder where every machine "
        "mounts it under the same path, or set MEDALLION_SPARK_MASTER to local[*]."
    )


def _unfit(settings: Settings, error: BaseException) -> ExecutorsUnfit:
    """Return the error to raise where executors failed before they did any work."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if "PYTHON_VERSION_MISMATCH" in line or "Cannot run program" in line]
    return ExecutorsUnfit(
        f"executors of the Spark master {settings.spark_master!r} did not answer a first task: "
        f"{(python or lines or [type(error).__name__])[0][:500]} Nothing was read or written. Their Python "
        f"must be a {sys.version_info.major}.{sys.version_info.minor} like this process's: name one that "
        "all of them have with PYSPARK_PYTHON."
    )


def _asked(spark: SparkSession) -> list[tuple[list[str], str]]:
    """Return what each executor's Python lacks, and where it is: a task for each core."""

    def answer(_: int) -> tuple[list[str], str]:
        return [name for name in (*NEEDED, "medallion_assets") if find_spec(name) is None], sys.executable

    return on_executors(spark, range(max(1, spark.sparkContext.defaultParallelism)), answer)


def _shipped(settings: Settings, folder: Path) -> Path:
    """Return a zip with this package, the project's, and the modules beside it that this process imported."""
    packages = {"medallion_assets": Path(__file__).parents[1]}
    name = re.split(r"[.:]", settings.pipelines)[0]
    if name and name not in packages and (found := _package(name)):
        packages |= {name: found} | _imported_beside(found)
    target = folder / "medallion.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as whole:
        for package in packages.values():
            files = sorted(package.rglob("*")) if package.is_dir() else [package]
            for file in files:
                if file.is_file() and "__pycache__" not in file.parts:
                    whole.write(file, str(file.relative_to(package.parent)))
    return target


def _package(name: str) -> Path | None:
    """Return the folder of a package, or the file of a module, of the project or installed."""
    here = (project_folder() or Path.cwd()) / name
    candidates = [here, here.with_suffix(".py")]
    spec = find_spec(name)
    if spec and spec.submodule_search_locations:
        candidates.insert(0, Path(next(iter(spec.submodule_search_locations))))
    elif spec and spec.origin:
        candidates.insert(0, Path(spec.origin))
    return next((path for path in candidates if path.exists()), None)


def _imported_beside(package: Path) -> dict[str, Path]:
    """Return the modules and packages of a package's folder that were imported; none of installed ones."""
    if package.parent.name in ("site-packages", "dist-packages"):
        return {}
    files = [getattr(module, "__file__", None) for module in [*sys.modules.values()]]
    paths = [Path(file) for file in files if file and file.endswith(".py")]
    found = [path.parent if path.name == "__init__.py" else path for path in paths]
    return {path.stem: path for path in found if path.parent == package.parent}


def _temporary() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="medallion-")
    atexit.register(folder.cleanup)
    return Path(folder.name)
