"""Files and objects: list, stat, ranged read, create-if-absent, delete; and one writer for each table."""

from medallion_assets.storage.locations import is_object, is_still, move, storage_of
from medallion_assets.storage.port import (
    FILE,
    FOLDER,
    LINK,
    Storage,
    StorageUnreachable,
    Stored,
    every_name,
    microseconds,
)

__all__ = [
    "FILE", "FOLDER", "LINK", "Storage", "StorageUnreachable", "Stored", "every_name", "is_object",
    "is_still", "microseconds", "move", "storage_of",
]  # fmt: skip
