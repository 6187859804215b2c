"""How many records a file physically holds, counted without Spark.

This count is one side of bronze's conservation: what Spark committed for a file is held against it.
"""

import csv
import hashlib
import io
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from medallion_assets.ingestion.counted_lines import BLOCK_BYTES, counted_records, lines_in, records_on
from medallion_assets.ingestion.csv_text import CsvText, Dialect, Row
from medallion_assets.ingestion.documents import as_documents
from medallion_assets.ingestion.errors import UnreadableFile
from medallion_assets.ingestion.footers import footer
from medallion_assets.ingestion.opening import Wrapping, wrapping
from medallion_assets.ingestion.options import Source
from medallion_assets.ingestion.xml_text import elements

WIDEST_HEADER = 1000
"""Spark's CSV parser stops at 20,480 columns, and its plans grow slow long before."""

BROKEN = (EOFError, zlib.error, lzma.LZMAError, OSError, pa.ArrowException)
"""What the decompressors and footers of a damaged file raise; ``gzip.BadGzipFile`` is an ``OSError``."""


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


def contents(path: Path, source: Source) -> Contents:
    """Gives the file's tag, its count of records and how they lie.

    Raises:
        UnreadableFile: The bytes are no whole file of the kind its name or the source says.
        OSError: The file cannot be opened.
    """
    path.open("rb").close()
    try:
        count = COUNTERS.get(source.format, _native)
        return count(path, source)
    except BROKEN as broken:
        raise UnreadableFile(f"not a whole file: {broken or type(broken).__name__}") from broken


def csv_rows(path: Path, source: Source, wrapping: Wrapping) -> list[Row]:
    """Gives a CSV file's records, header included, cut as RFC 4180 writes them."""
    with wrapping.text(path) as text:
        return list(CsvText(text.read(), Dialect.of(source)).rows())


def _json(path: Path, source: Source) -> Contents:
    wrapped = wrapping(path, source)
    documents = as_documents(path, wrapped, source.option("multiLine", default="auto"))
    if documents is not None:
        return Contents(_tag(path), len(documents), "document")
    return _lines(path, wrapped, records_on)


def _text(path: Path, source: Source) -> Contents:
    wrapped = wrapping(path, source)
    if source.option("wholetext", default="false") == "true":
        with wrapped.opened(path) as file:
            return Contents(_tag(path), 1 if file.read(1) else 0, "lines" if wrapped.plain else "recoded")
    return _lines(path, wrapped, lines_in)


def _lines(path: Path, wrapped: Wrapping, records_in: Callable[[bytes], int]) -> Contents:
    if wrapped.plain:
        with wrapped.opened(path) as lines:
            return Contents(_tag(path), counted_records(lines, records_in), "lines")
    with wrapped.text(path) as text:
        records = sum(records_in(line.encode("utf-8", "surrogateescape")) for line in text)
    return Contents(_tag(path), records, "recoded")


def _csv(path: Path, source: Source) -> Contents:
    wrapped = wrapping(path, source)
    by_name = source.option("header", default="true") == "true"
    if wrapped.plain and by_name:
        plain = _plain_csv(path, wrapped, Dialect.of(source))
        if plain:
            return plain
    rows = csv_rows(path, source, wrapped)
    header = _header(rows, by_name)
    return Contents(_tag(path), len(rows) - (1 if header and by_name else 0), "cells", header)


def _header(rows: list[Row], by_name: bool) -> str:
    """Gives the first record's cells as the header, or numbered names as Spark gives them."""
    if not rows or rows[0].problem:
        # A header that cannot be read is a record like the others, all refused with their text.
        return ""
    return _line(rows[0].cells if by_name else [f"_c{i}" for i in range(len(rows[0].cells))])


def _plain_csv(path: Path, wrapped: Wrapping, dialect: Dialect) -> Contents | None:
    """Gives a file no two parsers can disagree on, None for any other: no quote, one kind of line end."""
    records, header = 0, b""
    odd = [mark.encode() for mark in (dialect.quote, dialect.escape, dialect.comment, "\0") if mark]
    with wrapped.opened(path) as lines:
        for line in lines:
            bare = line.rstrip(b"\r\n")
            if any(mark in line for mark in odd) or b"\r" in bare or not _is_utf8(line):
                return None
            if bare and not bare.strip():
                return None
            records += 1 if bare else 0
            header = header or bare
    cells = header.decode().split(dialect.sep)
    if len(cells) > WIDEST_HEADER or len(dialect.sep) != 1:
        return None
    return Contents(_tag(path), max(records - 1, 0), "lines", _line(cells) if header else "")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _line(cells: "tuple[str | None, ...] | list[str]") -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    # Bytes that are no text came through as lone surrogates, which no table holds.
    return line.getvalue().encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _xml(path: Path, source: Source) -> Contents:
    wrapped = wrapping(path, source)
    with wrapped.opened(path) as file:
        return Contents(_tag(path), sum(1 for _ in elements(file, source)), "elements")


def _native(path: Path, source: Source) -> Contents:
    if source.format == "binaryFile":
        return Contents(_tag(path), 1, "native")
    records, schema = footer(path, source.format)
    return Contents(_tag(path), records, "rows" if source.format == "avro" else "native", schema)


def _tag(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


COUNTERS: dict[str, Callable[[Path, Source], Contents]] = {
    "json": _json, "csv": _csv, "text": _text, "xml": _xml,
}  # fmt: skip
