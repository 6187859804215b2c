"""Objects brought to this machine for readers that take files, and files brought to an object store."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from medallion_assets.storage.locations import is_object, storage_of

BLOCK = 4 << 20


@contextmanager
def local_copy(path: str) -> Iterator[Path]:
    """Return a local file itself, or a copy of an object under the same name that goes with the block.

    Raises:
        OSError: The object is gone or may not be read.
        StorageUnreachable: Its store did not answer.
    """
    if not is_object(path):
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="medallion-") as folder:
        copy = Path(folder, path.rpartition("/")[2])
        _download(path, copy)
        yield copy


def fetch(path: str, target: Path, tag: str) -> bool:
    """Copy an object to a file with the object's time, where its bytes have this SHA-256.

    Returns:
        False where the object is gone, may not be read, or has other bytes by now.

    Raises:
        StorageUnreachable: Its store did not answer; nothing is known of the object.
    """
    try:
        target.unlink(missing_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        found = storage_of(path).stat(path)
        if found and _download(path, target) == tag:
            os.utime(target, ns=(found.modified_at * 1000,) * 2)
            return True
        target.unlink(missing_ok=True)
    except OSError:
        return False
    return False


def upload(copy: Path, target: str) -> None:
    """Write a local file as an object, in parts where it is large.

    Raises:
        StorageUnreachable: The store did not answer.
    """
    with copy.open("rb") as content:
        storage_of(target).put(target, content)


def _download(path: str, target: Path) -> str:
    """Copy an object's bytes, and return their SHA-256."""
    digest = hashlib.sha256()
    with storage_of(path).open(path) as content, target.open("wb") as copy:
        while block := content.read(BLOCK):
            digest.update(block)
            copy.write(block)
    return digest.hexdigest()
