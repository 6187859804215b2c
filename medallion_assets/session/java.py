"""Find a Java for Spark 4, and Delta's jars, which are downloaded once with Ivy."""

import fcntl
import importlib.metadata
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark

OLDEST_JAVA = 17
"""Spark 4 needs class files of version 61."""


class JavaMissing(RuntimeError):
    """No Java of a usable version was found; the message says how to install one."""


def java_command() -> str:
    """Return the path of a Java 17 or newer: ``JAVA_HOME`` first, then the search path.

    Raises:
        JavaMissing: No Java was found, or only an older one.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found or not Path(found).exists():
        raise JavaMissing(_advice("No Java was found" + (f" under JAVA_HOME={home}" if home else "")))
    version = java_version(found)
    if version < OLDEST_JAVA:
        raise JavaMissing(_advice(f"{found} is Java {version}"))
    return found


def java_version(java: str) -> int:
    """Return the major version that this Java reports of itself, 8 for ``1.8``."""
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match.group(1)) if match else 0


def _advice(problem: str) -> str:
    return (
        f"{problem}; Spark needs Java {OLDEST_JAVA} or newer. Install one "
        "(Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
        "Fedora: dnf install java-17-openjdk-headless; "
        "macOS: brew install openjdk@17), or point JAVA_HOME at one. Nothing was read or written."
    )


DELTA_JARS = ("delta-spark_4.2_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults",
              "delta-kernel-unitycatalog", "unitycatalog-client", "unitycatalog-hadoop")  # fmt: skip
"""What of Delta's dependencies Spark's own folder does not hold; a second Hadoop or Jackson would clash."""


class JarsMissing(RuntimeError):
    """Delta's jars are neither in the cache nor could be fetched."""


def spark_jars_folder() -> Path:
    """Return the folder of the jars that came with pyspark."""
    return Path(pyspark.__file__).parent / "jars"


def delta_jars(cache: Path, java: str) -> list[Path]:
    """Return Delta's jars as files below ``cache``, fetching them on first use.

    Raises:
        JarsMissing: The fetch failed; the message holds what Ivy said last.
    """
    version = importlib.metadata.version("delta-spark")
    folder = cache / f"delta-{version}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        # Ivy's cache has no lock of its own: of two processes that fetched at once, both failed.
        with (cache / "fetching.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                _fetch(version, folder, java)
    return sorted(folder.glob("*.jar"))


def _fetch(version: str, folder: Path, java: str) -> None:
    staged = Path(tempfile.mkdtemp(prefix="delta-", dir=folder.parent))
    done = subprocess.run(_ivy(version, staged, java), capture_output=True, text=True, check=False)
    for jar in staged.glob("*.jar"):
        if jar.name.rpartition("-")[0] not in DELTA_JARS:
            jar.unlink()
    if done.returncode or len(list(staged.glob("*.jar"))) < len(DELTA_JARS):
        shutil.rmtree(staged)
        raise JarsMissing(_advice_without_jars(version, folder, done.stdout[-2000:] + done.stderr[-500:]))
    # A rename, so that a fetch cut off half way is never taken for a whole one.
    staged.chmod(0o755)
    shutil.rmtree(staged / "ivy")
    staged.rename(folder)


def _ivy(version: str, folder: Path, java: str) -> list[str]:
    # Ivy's own command line, from the jar Spark ships: resolving through a session's
    # spark.jars.packages costs each start 10 s more than files on the class path.
    pattern = str(folder / "[artifact]-[revision].[ext]")
    return [
        *(java, "-cp", str(spark_jars_folder() / "*"), "org.apache.ivy.Main", "-confs", "default"),
        *("-cache", str(folder / "ivy"), "-retrieve", pattern),
        *("-dependency", "io.delta", "delta-spark_4.2_2.13", version),
    ]


def _advice_without_jars(version: str, folder: Path, said: str) -> str:
    return (
        f"Delta Lake {version}'s jars could not be fetched from Maven Central. On a machine without network, "
        f"copy {', '.join(f'{name}-*.jar' for name in DELTA_JARS)} into {folder}. Ivy's last words:\n{said}"
    )
