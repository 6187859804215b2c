"""Files and objects: list, stat, ranged read, create-if-absent, delete; and one writer for each table."""

from medallion_assets.storage.locations import is_object, is_still, move, put_back, set_aside, storage_of
from medallion_assets.storage.paths import (
    ObjectPath,
    for_reader,
    path_of,
    relative,
    remove_tree,
    resolved,
    scratch_of,
)
from medallion_assets.storage.port import (
    FILE,
    FOLDER,
    LINK,
    UNNAMED,
    Storage,
    StorageUnreachable,
    Stored,
    every_name,
    microseconds,
)

__all__ = [
    "FILE", "FOLDER", "LINK", "UNNAMED", "ObjectPath", "Storage", "StorageUnreachable", "Stored",
    "every_name", "for_reader", "is_object", "is_still", "microseconds", "move", "path_of", "put_back",
    "relative", "remove_tree", "resolved", "scratch_of", "set_aside", "storage_of",
]  # fmt: skip
