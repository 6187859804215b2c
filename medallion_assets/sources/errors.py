"""What can be wrong with a source, a file or a batch, each with its own name."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
INTERVAL = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)")


def seconds_of(interval: str) -> float:
    """Return an interval such as ``10s``, ``500ms``, ``1m`` or ``1 day`` in seconds.

    Raises:
        ValueError: It is no interval.
    """
    found = INTERVAL.fullmatch(interval.strip())
    if not found:
        raise ValueError(f"{interval!r} is no interval; say it like 10s, 500ms, 1m or 1 day")
    return float(found[1]) * (SECONDS.get(found[2]) or SECONDS[found[2][0]])


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type where it has no message; never empty."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


WORKER_WORDS = ("PythonException", "PYTHON_EXCEPTION", "thrown from the Python worker")
"""Parts of the sentence before the traceback of a Python worker."""

LONGEST_CAUSE = 600
"""Characters of a cause: a Spark message can list a thousand columns."""


def cause_of(error: BaseException) -> str:
    """Return the innermost cause of an error as one paragraph that ends with a full stop.

    Spark's messages go on with plans, Java's with stacks and Python workers' with tracebacks: only the
    sentence is kept.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    java = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    # A colon also begins the lines of a plan's tree, followed by blanks and marks.
    named = [line.removeprefix(": ") for line in lines if re.match(r": [\w\[]", line)]
    first = (java[-1:] or named[:1] or lines[:1] or [""])[0]
    worker = _worker_error(lines) if any(word in first for word in WORKER_WORDS) else ""
    text = re.sub(r"\s*SQLSTATE: \w+(; line \d+ pos \d+)?;?", "", worker or first)
    # The class Java gives an error says nothing that its message does not.
    text = re.sub(r"^[a-z]\w*(\.\w+)+: (?=\[)", "", " ".join(text.split()))
    if not isinstance(error, RuntimeError) and type(error).__module__ == "builtins":
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    text = text if len(text) <= LONGEST_CAUSE else text[:LONGEST_CAUSE] + " ..."
    return text if text.endswith((".", "...")) else f"{text or type(error).__name__}."


def _worker_error(lines: list[str]) -> str:
    """Return the last line of a Python worker's traceback: the exception the user's function raised."""
    errors = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception)\b", line)]
    ours = [line for line in errors if not line.startswith(("org.", "java.", "pyspark.", "py4j."))]
    return ours[-1] if ours else ""


MOST_FILES = 5
"""Files that a message names."""


def some_of(files: Collection[str]) -> str:
    """Return the first names of files, and how many more there are."""
    named, more = sorted(files)[:MOST_FILES], len(files) - MOST_FILES
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


class SourceError(ValueError):
    """A source was declared in a way that cannot work; raised when the declaration loads."""


class UnreadableFile(Exception):
    """A file's bytes cannot be read as what its name says; it stays out, and the ledger says why."""


class BatchRefused(RuntimeError):
    """A batch was stopped by a rule its source declares; nothing of it was written, nothing is lost."""


class TableLost(RuntimeError):
    """The table is gone, and the ledger knows files that were loaded into it."""

    def __init__(self, key: str, path: Path, state: Path, quarantine: Path) -> None:
        """Names the folders."""
        super().__init__(
            f"{key}: the table at {path} is gone, and what is remembered of its files is not, so that a load "
            f"would bring only new ones. Nothing was changed: put the table back, or remove {state} and "
            f"{quarantine} and load again, to load all files again."
        )


class SourceMissing(BatchRefused):
    """The folder or file of a source is not there."""

    def __init__(self, source: str, location: str, seen_before: bool) -> None:
        """Names the place, and says whether files of it were taken before."""
        why = (
            "files were taken from it before"
            if seen_before
            else "there is no folder, file or mount of that name"
        )
        super().__init__(
            f"source {source!r}: {location} is not there, and {why}. Nothing was read or changed, and "
            "nothing is lost: mount or create it, or correct the source's path, and run again."
        )


class OldLedger(BatchRefused):
    """A ledger was written by a release before the columns this one orders files by."""

    def __init__(self, ledger: Path, lacking: Collection[str]) -> None:
        """Names the ledger and the columns."""
        super().__init__(
            f"the ledger at {ledger} is of an older release: it has no {', '.join(sorted(lacking))}. Nothing "
            "was read or changed: go on with the release that wrote it, or set MEDALLION_LAKE to an empty "
            "folder and run again, which loads every landing file again."
        )


class FolderDenied(BatchRefused):
    """A folder of a landing zone may not be listed, so that its files are unknown."""

    def __init__(self, folder: str) -> None:
        """Names the folder."""
        super().__init__(
            f"the folder {folder} may not be listed by the user this runs as. Nothing was taken and nothing "
            "is lost: let that user read it, or take it out of the landing zone, and run again."
        )


class NewColumns(BatchRefused):
    """Files brought columns, and the source's mode is ``failOnNewColumns``."""

    def __init__(self, source: str, added: Mapping[str, str], files: Collection[str]) -> None:
        """Names the columns and the files they are in."""
        columns = ", ".join(f"{name} {kind}" for name, kind in added.items())
        super().__init__(
            f"source {source!r}: new columns {columns} in {some_of(files)}, and its "
            "schema_evolution_mode is failOnNewColumns. Nothing of the batch was written and nothing is "
            "lost: add the columns to the schema or change the mode, and run again."
        )


class TypesDiffer(BatchRefused):
    """Rows have columns of other types than their table."""

    def __init__(
        self, table: str, differ: Mapping[str, tuple[str, str, str]], files: str, select: bool
    ) -> None:
        """Say which columns, what was not lost, and what to do.

        Args:
            table: The table's key.
            differ: By column: its type now, who says so, its type in the table.
            files: The landing files concerned.
            select: The rows come through a select list.
        """
        columns = "; ".join(
            f"{n} is {now} ({by}), and {held} in the table" for n, (now, by, held) in differ.items()
        )
        types = ", ".join(f"{name} {held}" for name, (_, _, held) in differ.items())
        way = (
            f"declare the types of the table ({types}), by which a value that does not fit is rescued or "
            "quarantined, and cast in a table downstream. Or, to give the column its new type, load all "
            f"files again into a new table (`medallion reset {table}` removes a declared one, and no file)."
        )
        if select:
            way = (
                "cast the column in the SELECT (CAST quarantines a record it fails on), or leave the SELECT "
                "out, so that files are read with the table's types."
            )
        super().__init__(
            f"{table}: {columns}; in {files}. A column has one type: nothing of the batch was written, and "
            f"nothing is lost. The files wait for the next load: {way}"
        )


class MalformedRecord(BatchRefused):
    """A record is malformed, and the source says ``FAILFAST``."""

    def __init__(self, source: str, file: str, reason: str, record: str) -> None:
        """Names the file and the record."""
        super().__init__(
            f"source {source!r}: {reason} in {file}, and malformed is FAILFAST. Nothing of the batch was "
            "written and nothing is lost: mend the file, or quarantine such records. The record: "
            f"{record[:200]}"
        )
