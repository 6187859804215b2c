"""Which store a path belongs to."""

import re
from datetime import datetime

from medallion_assets.storage.local import LocalStorage
from medallion_assets.storage.port import Storage, microseconds

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
    same = found is not None and (found.size, found.modified_at) == (size, microseconds(modified_at))
    return same and (not tag or found is None or found.tag == tag)


def move(path: str, target: str) -> bool:
    """Give a file another path, in any store; return false, with nothing changed, where that exists."""
    if not is_object(path) and not is_object(target):
        return LOCAL.move(path, target)
    with storage_of(path).open(path) as content:
        if not storage_of(target).create(target, content):
            return False
    storage_of(path).delete(path)
    return True
