"""Which store a path belongs to."""

import logging
import re
from datetime import datetime

from medallion_assets.storage.local import LocalStorage, aside_of
from medallion_assets.storage.port import Storage, Stored, microseconds

OBJECTS = re.compile(r"(?:s3a?|gs|az|abfss?|memory)://[^/]+")
"""Buckets of the kinds of object store that can be read."""

LOCAL = LocalStorage()


def is_object(path: str) -> bool:
    """Return true where a path is one of an object store."""
    return OBJECTS.match(path) is not None


def storage_of(path: str) -> Storage:
    """Return the store that a path belongs to."""
    if bucket := OBJECTS.match(path):
        # The library takes 50 ms to import, and most projects have local folders only.
        from medallion_assets.storage.objects import object_storage

        return object_storage(bucket[0])
    return LOCAL


def is_still(path: str, size: int, modified_at: datetime, tag: str = "") -> bool:
    """Return true where a file can be looked at, and has this size, time and tag (where given)."""
    try:
        found = storage_of(path).stat(path)
    except OSError:
        return False
    return is_of(found, size, modified_at) and (not tag or found is None or found.tag == tag)


def is_of(found: Stored | None, size: int, modified_at: datetime) -> bool:
    """Return true where there is a file, and it has this size and time."""
    return found is not None and (found.size, found.modified_at) == (size, microseconds(modified_at))


def move(path: str, target: str) -> bool:
    """Give a file another path, in any store; return false, with nothing changed, where that exists."""
    if not is_object(path) and not is_object(target):
        return LOCAL.move(path, target)
    with storage_of(path).open(path) as content:
        if not storage_of(target).create(target, content):
            return False
    storage_of(path).delete(path)
    return True


def set_aside(path: str, size: int, modified_at: datetime) -> str:
    """Take a file out of every other program's reach, where it has this size and time; return where it is.

    Empty where it is another file by now, which keeps its path. Nothing of the kind can be done in an object
    store: there the file is looked at once more and stays where it is.
    """
    if is_object(path):
        return path if is_still(path, size, modified_at) else ""
    found = LOCAL.set_aside(path)
    if is_of(found, size, modified_at):
        return aside_of(path)
    if found and not LOCAL.put_back(path):
        message = "%s was overwritten twice while it was cleaned; the first of the two is kept as %s"
        logging.getLogger(__name__).warning(message, path, aside_of(path))
    return ""


def put_back(path: str) -> None:
    """Give a file its name again that a process set aside and left when it died."""
    if not is_object(path):
        LOCAL.put_back(path)
