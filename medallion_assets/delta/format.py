"""The version of what a lake's tables say of themselves: one small file, written at a lake's first use."""

import json
import os
from pathlib import Path

from medallion_assets.delta.errors import LakeFormatUnknown

FORMAT = 1
"""Raised with every change of what commits, ledgers or quarantines hold that an older release misreads."""

FILE = "_medallion.json"


def check_format(root: Path) -> None:
    """Write the format of a lake that is new, and refuse one of another format.

    Raises:
        LakeFormatUnknown: The lake has tables and no format, or another one; nothing was read or written.
    """
    file = root / FILE
    if not file.exists() and not any(root.glob("*/*/*/_delta_log")):
        root.mkdir(parents=True, exist_ok=True)
        draft = root / f".{FILE}.{os.getpid()}"
        draft.write_text(json.dumps({"format": FORMAT}))
        draft.replace(file)
    try:
        found = json.loads(file.read_text())["format"] if file.exists() else None
    except (ValueError, KeyError, TypeError):
        found = None
    if found != FORMAT:
        raise LakeFormatUnknown(root, found, FORMAT)
