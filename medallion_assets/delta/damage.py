"""Whether a checkpoint's files are what Spark wrote: looked at before Spark stumbles over them."""

import json
import zlib
from pathlib import Path

from medallion_assets.delta.errors import DamagedCheckpoint
from medallion_assets.delta.progress import last_number

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
    told, whole = checked.read_bytes() if checked.exists() else b"", file.read_bytes()
    if not told.startswith(CHECKSUMS):
        return True
    size = int.from_bytes(told[4:8], "big")
    pieces = (whole[at : at + size] for at in range(0, len(whole), size))
    return told[8:] == b"".join(zlib.crc32(piece).to_bytes(4, "big") for piece in pieces)
