"""A stream's position and the integrity of its checkpoint files, read without a JVM."""

import json
import shutil
import zlib
from pathlib import Path

from medallion_assets.delta.errors import DamagedCheckpoint
from medallion_assets.storage import ObjectPath, remove_tree


def committed_position(checkpoint: Path) -> int:
    """Return the upstream version up to which every micro-batch was committed, -1 where none was."""
    return offset_of(checkpoint, last_number(checkpoint / "commits"))


def planned_position(checkpoint: Path) -> int:
    """Return the upstream version at which the newest planned micro-batch ends, -1 where none was planned."""
    return offset_of(checkpoint, last_number(checkpoint / "offsets"))


def offset_of(checkpoint: Path, batch_id: int) -> int:
    """Return the upstream version a micro-batch ends at, -1 where there is no such batch.

    A micro-batch takes versions whole: every commit of a ledger is one file, and a stream of changes is not
    cut. So an offset inside a version is that version's last.

    Raises:
        DamagedCheckpoint: The file of its offset is cut off or holds none.
    """
    version, index = _offset(checkpoint, batch_id)
    # A negative index means that nothing of the version itself was taken yet.
    return version - (index < 0)


def must_be_read_again(checkpoint: Path) -> bool:
    """Return true where Spark reads the version of the last micro-batch from its source again.

    Spark does so where the checkpoint has a single micro-batch, and fails to find the start of that batch
    where it ends inside a version, as after a commit of several files.
    """
    version, index = _offset(checkpoint, 0)
    return last_number(checkpoint / "commits") == 0 and version >= 0 and index >= 0


def _offset(checkpoint: Path, batch_id: int) -> tuple[int, int]:
    """Return the version and the index in it at which a micro-batch ends, (-1, 0) for no such batch."""
    planned = checkpoint / "offsets" / str(batch_id)
    if batch_id < 0 or not planned.exists():
        return -1, 0
    try:
        for line in planned.read_text().splitlines():
            offset = json.loads(line) if line.startswith("{") else {}
            if "reservoirVersion" in offset:
                return int(offset["reservoirVersion"]), int(offset["index"])
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"{planned} cannot be read") from error
    return -1, 0


def last_number(folder: Path) -> int:
    """Return the highest micro-batch a checkpoint folder names, -1 where there is none."""
    names = [f.name for f in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


def is_interrupted(checkpoint: Path) -> bool:
    """Return true where a micro-batch was planned and not committed."""
    return last_number(checkpoint / "offsets") > last_number(checkpoint / "commits")


def unplan(checkpoint: Path) -> None:
    """Drop a micro-batch that was planned and not committed: the stream plans again."""
    if is_interrupted(checkpoint):
        planned = checkpoint / "offsets" / str(last_number(checkpoint / "offsets"))
        planned.with_name(f".{planned.name}.crc").unlink(missing_ok=True)
        planned.unlink()


def agrees(checkpoint: Path, position: int) -> bool:
    """Return true where a checkpoint goes on from a table's position, or is about to repeat its last batch.

    Any other was lost in part, put back from an older copy, or is ahead of a table that was put back.
    """
    if committed_position(checkpoint) == position:
        return True
    return is_interrupted(checkpoint) and planned_position(checkpoint) == position


def goes_on(checkpoint: Path, position: int) -> bool:
    """Return true where a stream without state goes on from a table's position with this checkpoint.

    With any other, and with a batch that was planned and did not end, it begins with a new one at the
    position, and takes all there is then.
    """
    return not is_interrupted(checkpoint) and committed_position(checkpoint) == position


def query_id(checkpoint: Path) -> str:
    """Return the streaming query's id, empty where the checkpoint has none yet."""
    file = checkpoint / "metadata"
    try:
        return str(json.loads(file.read_text())["id"]) if file.exists() else ""
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"{file} cannot be read") from error


def forget(checkpoint: Path) -> None:
    """Drop a checkpoint; the caller holds the lease of its table."""
    if isinstance(checkpoint, ObjectPath):
        if not checkpoint.exists() and not _mark_of(checkpoint).exists():
            return
        # Without renames, a mark says that what is left of it counts for nothing until it is gone.
        _mark_of(checkpoint).write_bytes(b"")
        remove_tree(checkpoint)
        _mark_of(checkpoint).unlink(missing_ok=True)
    elif checkpoint.exists():
        # One rename: a checkpoint half deleted would start in its middle.
        aside = checkpoint.with_name(f"{checkpoint.name}.old")
        shutil.rmtree(aside, ignore_errors=True)
        checkpoint.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def put_aside(checkpoint: Path) -> Path:
    """Move a checkpoint to another place, and return that; in an object store, which cannot, drop it.

    A rebuild that fails there is followed by another one: the state is lost, and no row.
    """
    kept = checkpoint.with_name(f"{checkpoint.name}.kept")
    if isinstance(checkpoint, ObjectPath):
        forget(checkpoint)
        return kept
    forget(kept)
    if checkpoint.exists():
        checkpoint.rename(kept)
    return kept


def put_back(kept: Path, checkpoint: Path) -> None:
    """Drop a checkpoint, and give its place to the one that was put aside, where there was one."""
    forget(checkpoint)
    if not isinstance(kept, ObjectPath) and kept.exists():
        kept.rename(checkpoint)


def finish_forgetting(checkpoint: Path) -> None:
    """Drop the rest of a checkpoint in an object store whose dropping was cut off."""
    if isinstance(checkpoint, ObjectPath) and _mark_of(checkpoint).exists():
        forget(checkpoint)


def _mark_of(checkpoint: Path) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.forgotten")


CHECKSUMS = b"crc\0"
"""How Hadoop's checksum files begin; the bytes one checksum is of follow, as a number."""


def refuse_damaged(checkpoint: Path) -> None:
    """Raise where what Spark begins with cannot be read: its own error says neither which nor what to do.

    Raises:
        DamagedCheckpoint: The metadata, or the newest offset or commit, is empty, cut off or not what its
            checksum says. Spark writes each in one rename, so no crash leaves that.
    """
    folders = (checkpoint / "offsets", checkpoint / "commits")
    for file in (checkpoint / "metadata", *(folder / str(last_number(folder)) for folder in folders)):
        if file.exists() and not (_is_whole(file) and _is_as_checked(file)):
            raise DamagedCheckpoint(f"{file} cannot be read")


def _is_whole(file: Path) -> bool:
    """True for lines of JSON, below a version where the file has one."""
    try:
        first, *rest = file.read_text().splitlines()
        records = [first] if file.name == "metadata" else [x for x in rest if x.startswith("{")]
        return all(json.loads(x) for x in records) and (file.name == "metadata" or first.startswith("v"))
    except ValueError:
        return False


def _is_as_checked(file: Path) -> bool:
    checked = file.with_name(f".{file.name}.crc")
    checksums, whole = checked.read_bytes() if checked.exists() else b"", file.read_bytes()
    if not checksums.startswith(CHECKSUMS):
        return True
    size = int.from_bytes(checksums[4:8], "big")
    pieces = (whole[at : at + size] for at in range(0, len(whole), size))
    return checksums[8:] == b"".join(zlib.crc32(piece).to_bytes(4, "big") for piece in pieces)
