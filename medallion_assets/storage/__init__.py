"""Files and objects: list, stat, ranged read, create-if-absent, delete; and one writer for each table."""

from medallion_assets.storage.locations import is_object, move, storage_of
from medallion_assets.storage.port import FILE, FOLDER, LINK, Storage, StorageUnreachable, Stored

__all__ = [
    "FILE", "FOLDER", "LINK", "Storage", "StorageUnreachable", "Stored", "is_object", "move", "storage_of",
]  # fmt: skip
