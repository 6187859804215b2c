"""How far a table's stream has come, read from its checkpoint's files without a JVM."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medallion_assets.delta.errors import DamagedCheckpoint


@dataclass(frozen=True)
class Position:
    """A place in an upstream Delta log.

    Attributes:
        version: The last upstream version taken whole; -1 where none was.
        partly: True where the version after it was begun: some of its files are taken, some are not.
    """

    version: int
    partly: bool = False


START = Position(-1)


def committed_position(checkpoint: Path, feed: bool = False) -> Position:
    """Return the place up to which every micro-batch was committed; ``feed`` as in ``offset_of``."""
    return offset_of(checkpoint, last_number(checkpoint / "commits"), feed)


def offset_of(checkpoint: Path, batch_id: int, feed: bool = False) -> Position:
    """Return the place a micro-batch ends at, the start where there is no such batch.

    Args:
        checkpoint: The stream's checkpoint.
        batch_id: The micro-batch.
        feed: True for a stream of changes that takes versions whole: it may end on a version's last
            change without saying that there is none after it.

    Raises:
        DamagedCheckpoint: Its file is cut off or no offset at all.
    """
    planned = checkpoint / "offsets" / str(batch_id)
    if batch_id < 0 or not planned.exists():
        return START
    try:
        for line in planned.read_text().splitlines():
            offset = _offset(line)
            if offset is not None:
                return _position(offset, feed)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"{planned} cannot be read") from error
    return START


def last_number(folder: Path) -> int:
    """Return the highest micro-batch a checkpoint folder names, -1 where there is none."""
    names = [f.name for f in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


def is_interrupted(checkpoint: Path) -> bool:
    """Return true where a micro-batch was planned and not committed."""
    return last_number(checkpoint / "offsets") > last_number(checkpoint / "commits")


def query_id(checkpoint: Path) -> str:
    """Return the streaming query's id, empty where the checkpoint has none yet."""
    file = checkpoint / "metadata"
    try:
        return str(json.loads(file.read_text())["id"]) if file.exists() else ""
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"{file} cannot be read") from error


def forget(checkpoint: Path) -> None:
    """Drop a checkpoint."""
    if checkpoint.exists():
        # One rename: a checkpoint half deleted would start in its middle.
        aside = checkpoint.with_name(f"{checkpoint.name}.old")
        shutil.rmtree(aside, ignore_errors=True)
        checkpoint.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def _offset(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    found = json.loads(line)
    return found if "reservoirVersion" in found else None


def _position(offset: dict[str, Any], feed: bool) -> Position:
    # A negative index means that nothing of reservoirVersion itself was taken yet.
    version, begun = int(offset["reservoirVersion"]), int(offset["index"]) >= 0
    return Position(version) if feed and begun else Position(version - 1, partly=begun)
