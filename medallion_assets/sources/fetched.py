"""Download the objects of one batch, so that every reader of local files can read them."""

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from medallion_assets.sources.ledger import Entry
from medallion_assets.storage import is_object, scratch_of
from medallion_assets.storage.copies import fetch

AT_ONCE = 8
"""Objects downloaded side by side."""


def fetched_in(state: Path) -> Path:
    """Return the folder in a table's state for the downloaded objects of a batch."""
    return scratch_of(state) / "fetched"


def forget_fetched(state: Path) -> None:
    """Delete the downloaded objects; call it when nobody reads them."""
    shutil.rmtree(fetched_in(state), ignore_errors=True)


def at_hand(files: Sequence[Entry], folder: Path) -> list[Entry]:
    """Return the files as local files: download objects to a folder.

    An object that was removed or changed since discovery is not downloaded, so that its file is missing.
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
