"""Errors of a table's store; each message names the table and what to do."""

from pathlib import Path

from medallion_assets.storage.lease import LeaseLost


class DamagedCheckpoint(RuntimeError):
    """A file of a checkpoint cannot be read; nothing was read or written."""


class UnusablePath(ValueError):
    """A path that the reader of Delta logs cannot open."""

    def __init__(self, path: Path) -> None:
        """Name the path and the way out."""
        super().__init__(
            f"no Delta table at {path} can be opened: the reader of Delta logs, deltalake, does not take a "
            "path with [ ] | ^, a backslash, a line break, or a percent sign before two digits (%20). "
            "Nothing was read or written. Please rename the folder, or move lake or checkpoint to another."
        )


class DamagedTable(RuntimeError):
    """A Delta table's log cannot be read; nothing was read or written."""

    def __init__(self, path: Path, cause: BaseException) -> None:
        """Say which table, what was not touched, and what to do."""
        why = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
        super().__init__(
            f"the Delta table at {path} cannot be opened: {why}. Nothing was read or written. Where its disk "
            "is full or a file of its log was lost, put that right and run again; else `medallion reset` of "
            "that table, and a run, load it and the tables downstream of it again from upstream."
        )


class LakeFormatUnknown(RuntimeError):
    """A lake was written by a release of another format; nothing was read or written."""

    def __init__(self, root: Path, found: object, known: int) -> None:
        """Name the lake, its format and the one this release reads and writes."""
        what = "says no format" if found is None else f"is of format {found}"
        super().__init__(
            f"the lake at {root} has tables and {what}, while this release reads and writes format {known}; "
            "nothing was read or written: use the release that wrote it, or an empty folder and run again."
        )


class UnfitStore(RuntimeError):
    """An object store cannot hold a lake; nothing was written."""

    def __init__(self, root: Path) -> None:
        """Name the lake and what its store lacks."""
        super().__init__(
            f"the lake at {root} cannot be kept in this object store: it wrote an object over another one "
            "although it was asked to create it only where there is none (If-None-Match), so that two runs "
            "could write one table at once. Nothing is left there: use a store that does, or a local folder."
        )


class LateCommit(LeaseLost):
    """A run that was paused and lost its lease committed to the quarantine; the batch was not committed."""

    def __init__(self, quarantine: Path, run_id: str) -> None:
        """Name the quarantine and the run."""
        super().__init__(
            f"run {run_id}, which was paused and lost this table's lease, committed to the quarantine at "
            f"{quarantine} after another run took over. This batch was not committed, and nothing is lost: "
            "run again, and the next run takes that commit back."
        )
