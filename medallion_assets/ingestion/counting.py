"""How many records a file physically holds, counted without Spark.

This count is one side of bronze's conservation: what Spark committed for a file is held against it.
"""

import csv
import gzip
import hashlib
import io
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from medallion_assets.ingestion.documents import as_documents
from medallion_assets.ingestion.errors import UnreadableFile
from medallion_assets.ingestion.options import Source

BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Contents:
    """What discovery knows of a file's inside.

    Attributes:
        tag: SHA-256 of the bytes as they lie on disk.
        records: Records the file holds; blank lines and a CSV's header are none.
        layout: ``lines`` (a record a line) or ``document`` (records span or share lines).
        header: The CSV's column names as one CSV line, empty for JSON.
    """

    tag: str
    records: int
    layout: str
    header: str = ""


def opened(path: Path) -> BinaryIO:
    """Gives the file's uncompressed bytes; ``.gz`` is told by its name, as Spark does."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def contents(path: Path, source: Source) -> Contents:
    """Gives the file's tag, its count of records and how they lie.

    Raises:
        UnreadableFile: The bytes are no whole gzip file, or no text in the source's encoding.
        OSError: The file cannot be opened.
    """
    try:
        return _json(path) if source.format == "json" else _csv(path, source)
    except (EOFError, zlib.error, gzip.BadGzipFile) as broken:
        raise UnreadableFile(f"not a whole gzip file: {broken}") from broken
    except UnicodeDecodeError as broken:
        raise UnreadableFile(
            f"not text in {broken.encoding}: {broken.reason} at byte {broken.start}"
        ) from broken


def _json(path: Path) -> Contents:
    documents = as_documents(path)
    if documents is not None:
        return Contents(_tag(path), len(documents), "document")
    with opened(path) as lines:
        return Contents(_tag(path), sum(map(_records_on, lines)), "lines")


def _records_on(line: bytes) -> int:
    # Spark ends a line at a lone carriage return too; Python's file iteration does not.
    if b"\r" in line[:-2]:
        return sum(1 for part in line.splitlines() if part.strip())
    return 1 if line.strip() else 0


def _csv(path: Path, source: Source) -> Contents:
    encoding = source.reader_options.get("encoding", "utf-8-sig")
    with io.TextIOWrapper(opened(path), encoding=encoding, newline="") as text:
        reader = csv.reader(text, delimiter=source.reader_options.get("sep", ","))
        header = next((row for row in reader if row), [])
        starts_at = reader.line_num
        records = sum(1 for row in reader if row)
        layout = "lines" if reader.line_num - starts_at <= records + _blank_lines(path) else "document"
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(header)
    return Contents(_tag(path), records, layout, line.getvalue())


def _blank_lines(path: Path) -> int:
    with opened(path) as lines:
        return sum(1 for line in lines if not line.strip())


def _tag(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
