"""The objects of one batch as files of this machine, so that every reader of files reads objects, too."""

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from medallion_assets.sources.ledger import Entry
from medallion_assets.storage import is_object
from medallion_assets.storage.copies import fetch

AT_ONCE = 8
"""Objects downloaded side by side."""


def fetched_in(state: Path) -> Path:
    """Return the folder of a table's state that the objects of a batch are brought to."""
    return state / "fetched"


def forget_fetched(state: Path) -> None:
    """Remove what was brought here, once nobody reads it any more."""
    shutil.rmtree(fetched_in(state), ignore_errors=True)


def at_hand(files: Sequence[Entry], folder: Path) -> list[Entry]:
    """Return the files as files of this machine: objects are brought to a folder, as any reader finds them.

    An object that is gone or has other bytes than discovery counted is not there, as such a file would be.
    """
    climbs = max((file.path.count("../") for file in files), default=0)
    root = folder.joinpath(*["below"] * climbs)

    def bring(file: Entry) -> Entry:
        if not is_object(file.root):
            return file
        here = replace(file, root=str(root))
        # Whatever its key says, it goes nowhere else.
        if here.location.is_relative_to(folder):
            fetch(file.address, here.location, file.tag)
        return here

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(bring, files))
