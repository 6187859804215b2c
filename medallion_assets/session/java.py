"""Find a Java for Spark 4, and the jars of Delta and of S3, which are downloaded once with Ivy."""

import fcntl
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
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


S3_JARS = ("hadoop-aws", "bundle", "analyticsaccelerator-s3", "wildfly-openssl")
"""Hadoop's client of S3, and Amazon's own as one jar: in parts it would bring a second Netty and Jackson."""

S3_MEGABYTES = 690

OF_S3 = ("s3", "sts", "kms", "sso", "ssooidc", "signin")
"""The services in Amazon's jar that S3 and the credentials for it need; it has four hundred."""

UNUSED = re.compile(rf"software/amazon/awssdk/services/(?!({'|'.join(OF_S3)})/)")
"""Entries of Amazon's jar that are left out: those of all other services. A JVM reads the names in every jar
of its class path as it starts, and these are 388,000."""


class JarsMissing(RuntimeError):
    """Jars are neither in the cache nor could be fetched."""


def spark_jars_folder() -> Path:
    """Return the folder of the jars that came with pyspark."""
    return Path(pyspark.__file__).parent / "jars"


def delta_jars(cache: Path, java: str) -> list[Path]:
    """Return Delta's jars as files below ``cache``, fetching them on first use.

    Raises:
        JarsMissing: The fetch failed; the message holds what Ivy said last.
    """
    version = importlib.metadata.version("delta-spark")
    module = ("io.delta", "delta-spark_4.2_2.13", version)
    return _jars(cache / f"delta-{version}", java, module, DELTA_JARS)


def s3_jars(cache: Path, java: str, tell: Callable[[str], None] | None = None) -> list[Path]:
    """Return the jars with which Spark reads S3 as files below ``cache``, fetching them on first use.

    They are 690 MB, so that a fetch is announced and its progress is shown on standard error.

    Args:
        cache: The folder that keeps jars.
        java: The Java that Ivy runs on.
        tell: Takes each line of progress; it is written to standard error where None.

    Raises:
        JarsMissing: The fetch failed; the message holds what Ivy said last.
    """
    # Another version than that of the Hadoop which came with pyspark fails as it loads.
    version = next(spark_jars_folder().glob("hadoop-client-api-*.jar")).stem.rpartition("-")[2]
    folder = cache / f"hadoop-aws-{version}"
    module = ("org.apache.hadoop", "hadoop-aws", version)
    with nullcontext() if folder.is_dir() else _progress(folder, version, tell or _to_standard_error):
        return _jars(folder, java, module, S3_JARS)


@contextmanager
def _progress(folder: Path, version: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Say that the jars of S3 are fetched, and every ten seconds how much of them is there."""
    tell(
        f"Spark needs hadoop-aws {version} for a lake in S3: {S3_MEGABYTES} MB are fetched from Maven "
        f"Central, once; 25 MB of them are kept in {folder}."
    )
    done = threading.Event()

    def follow() -> None:
        while not done.wait(10):
            parts = [f for f in folder.parent.glob(f"{folder.name}.*/ivy/**/*") if ".jar" in f.name]
            there = sum(f.stat().st_size for f in parts if f.exists()) >> 20
            tell(f"hadoop-aws {version}: {min(there, S3_MEGABYTES)} of {S3_MEGABYTES} MB")

    thread = threading.Thread(target=follow, name="progress of jars", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    tell(f"hadoop-aws {version} is there.")


def _to_standard_error(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


Module = tuple[str, str, str]
"""A module of Maven Central: organisation, name and version."""


def _jars(folder: Path, java: str, module: Module, names: Sequence[str]) -> list[Path]:
    """Return the jars of these names in a folder; the module is fetched where there is no folder yet."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Ivy's cache has no lock of its own: of two processes that fetched at once, both failed.
        with (folder.parent / "fetching.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                _fetch(module, folder, java, names)
    return sorted(folder.glob("*.jar"))


def _fetch(module: Module, folder: Path, java: str, names: Sequence[str]) -> None:
    staged = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    done = subprocess.run(_ivy(module, staged, java), capture_output=True, text=True, check=False)
    for jar in staged.glob("*.jar"):
        if jar.name.rpartition("-")[0] not in names:
            jar.unlink()
    if done.returncode or len(list(staged.glob("*.jar"))) < len(names):
        shutil.rmtree(staged)
        said = done.stdout[-2000:] + done.stderr[-500:]
        raise JarsMissing(_advice_without_jars(module, folder, names, said))
    for jar in staged.glob("bundle-*.jar"):
        _keep_used(jar)
    # A rename, so that a fetch cut off half way is never taken for a whole one.
    staged.chmod(0o755)
    shutil.rmtree(staged / "ivy")
    staged.rename(folder)


def _keep_used(jar: Path) -> None:
    """Write a jar again without the entries that ``UNUSED`` matches."""
    whole = jar.rename(jar.with_suffix(".whole"))
    packed = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(jar, "w", packed, compresslevel=1) as new:
        for entry in old.infolist():
            if not entry.is_dir() and not UNUSED.match(entry.filename):
                new.writestr(entry, old.read(entry))
    whole.unlink()


def _ivy(module: Module, folder: Path, java: str) -> list[str]:
    # Ivy's own command line, from the jar Spark ships: resolving through a session's
    # spark.jars.packages costs each start 10 s more than files on the class path.
    pattern = str(folder / "[artifact]-[revision].[ext]")
    return [
        *(java, "-cp", str(spark_jars_folder() / "*"), "org.apache.ivy.Main", "-confs", "default"),
        *("-cache", str(folder / "ivy"), "-retrieve", pattern),
        *("-dependency", *module),
    ]


def _advice_without_jars(module: Module, folder: Path, names: Sequence[str], said: str) -> str:
    what = f"Delta Lake {module[2]}'s jars" if names is DELTA_JARS else f"The jars of {module[1]} {module[2]}"
    return (
        f"{what} could not be fetched from Maven Central. On a machine without network, "
        f"copy {', '.join(f'{name}-*.jar' for name in names)} into {folder}. Ivy's last words:\n{said}"
    )


SOURCE = Path(__file__).with_name("PutIfAbsent.scala")


class NotCompiled(RuntimeError):
    """The classes that a lake in S3 needs could not be compiled; nothing was read or written."""


def put_if_absent_jar(cache: Path, java: str, jars: Sequence[Path]) -> Path:
    """Return the jar of the classes in ``PutIfAbsent.scala``, compiled on first use by Spark's own Scala.

    Args:
        cache: The folder that keeps jars.
        java: The Java that the compiler runs on.
        jars: The jars of Delta and of S3.

    Raises:
        NotCompiled: The compiler failed; the message holds what it said last.
    """
    versions = [importlib.metadata.version(name) for name in ("pyspark", "delta-spark")]
    made_of = "\n".join([SOURCE.read_text("utf-8"), *versions])
    jar = cache / f"put-if-absent-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.jar"
    if jar.exists():
        return jar
    with tempfile.TemporaryDirectory(prefix=f"{jar.name}.", dir=cache) as made:
        class_path = os.pathsep.join(map(str, [spark_jars_folder() / "*", *jars]))
        compiler = [java, "-cp", class_path, "scala.tools.nsc.Main", "-usejavacp", "-nowarn", "-d", made]
        done = subprocess.run([*compiler, str(SOURCE)], capture_output=True, text=True, check=False)
        classes = sorted(Path(made, "medallion").glob("*.class"))
        if done.returncode or not classes:
            raise NotCompiled(
                f"{SOURCE} could not be compiled with {java}. Nothing was read or written: a lake in S3 "
                "needs these classes, which are made once, from the jars of Spark, Delta and S3. The "
                f"compiler's last words:\n{(done.stdout + done.stderr)[-2000:]}"
            )
        draft = Path(made, jar.name)
        with zipfile.ZipFile(draft, "w") as packed:
            for found in classes:
                packed.write(found, f"medallion/{found.name}")
        # Two processes that made it at once made the same.
        draft.replace(jar)
    return jar
