"""What discovery knows of a file's inside, and the tag its bytes are known by."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from medallion_assets.sources.counted_lines import BLOCK_BYTES


@dataclass(frozen=True)
class Contents:
    """What discovery knows of a file's inside.

    Attributes:
        tag: SHA-256 of the bytes as they lie on disk.
        records: Records the file holds; blank lines and a CSV's header are none.
        layout: How Spark is to get them: ``lines`` and ``native`` as the file lies, ``recoded`` as a plain
            copy; ``document``, ``cells`` and ``elements`` cut into records first; ``rows`` as Parquet.
        header: The CSV's column names as one CSV line; the schema of a file that carries its own.
    """

    tag: str
    records: int
    layout: str
    header: str = ""


def tag_of(path: Path) -> str:
    """Return the SHA-256 of the bytes as they lie on disk."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
