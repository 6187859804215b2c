"""Finds a Java that Spark 4 runs on, or says how to get one."""

import os
import re
import shutil
import subprocess
from pathlib import Path

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
