"""The class-data archive: Java's classes laid out once, mapped into memory at each later start."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

WHOLE_BYTES = 150 << 20
"""A whole chain's classes take 200 MB, a bare session's 95: an archive below this lacks most of Delta."""

ATTEMPTS = 3
"""Writing one takes seconds at exit; a machine whose runs stay small is not to pay them for ever."""

QUIET = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def archive_flags(cache: Path, java: str, class_path: Iterable[Path]) -> list[str]:
    """Return the JVM flags that make the archive on first use and map it in afterwards.

    An archive fits one Java and one class path only, so its name holds both; one that does not
    fit is ignored by the JVM. It takes a session's start from about 10 s to 3.5 s. What the first
    session did not load, its archive lacks: one made by a session that did little is recomputed.
    """
    name = f"classes-{_fingerprint(java, class_path)}"
    made = [cache / f"{name}-{attempt}.jsa" for attempt in range(ATTEMPTS)]
    made = [archive for archive in made if archive.exists()]
    if made and (made[-1].stat().st_size >= WHOLE_BYTES or len(made) == ATTEMPTS):
        # `auto` falls back to plain loading where the file is damaged.
        return [f"-XX:SharedArchiveFile={made[-1]}", "-Xshare:auto", *QUIET]
    cache.mkdir(parents=True, exist_ok=True)
    return [f"-XX:ArchiveClassesAtExit={cache / f'{name}-{len(made)}.jsa'}", *QUIET]


def _fingerprint(java: str, class_path: Iterable[Path]) -> str:
    parts = [str(Path(java).resolve()), *(f"{p}:{p.stat().st_mtime_ns}" for p in class_path)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
