"""A file's records as lines of plain text, and how many a file physically holds, counted without Spark.

This count is one side of bronze's conservation: what Spark committed for a file is held against it.
"""

import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from medallion_assets.sources.counted_lines import (
    Contents,
    counted_records,
    each_line,
    lines_in,
    records_on,
    tag_of,
)
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats.csv_blocks import csv_contents
from medallion_assets.sources.formats.exact_copy import footer
from medallion_assets.sources.formats.json_scan import documents
from medallion_assets.sources.formats.messages import MESSAGES, message_blocks, message_contents
from medallion_assets.sources.formats.xml import elements
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.opening import SPARK_READS, Wrapping, wrapping
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import CutRecord

CHUNK = 1 << 20
CUT_LAYOUTS = ("document", "elements", MESSAGES)


def plain_pieces(file: Entry, source: Source) -> Iterator[bytes]:
    """Return a file's records as UTF-8 lines, piece by piece, whatever it is wrapped in."""
    path = file.location
    if file.layout == MESSAGES:
        yield from (messages.lines + b"\n" for messages in message_blocks(path, file.path))
        return
    if file.layout == "lines" and file.size <= CHUNK and path.suffix not in SPARK_READS:
        # What thousands of small files are opened for is little beside their openings.
        yield path.read_bytes()
        return
    wrapped = wrapping(path, source)
    if file.layout == "lines":
        with wrapped.opened(path) as lines:
            while block := lines.read(CHUNK):
                yield block
    elif file.layout == "recoded":
        with wrapped.text(path) as text:
            while chunk := text.read(CHUNK):
                yield chunk.encode("utf-8", wrapped.errors)
    else:
        errors = wrapped.errors if file.layout == "document" else "strict"
        yield from (f"{record.line}\n".encode("utf-8", errors) for record in cut_records(file, source))


def cut_records(file: Entry, source: Source) -> Iterator[CutRecord]:
    """Return the records of a file whose layout is ``document`` or ``elements``."""
    path = file.location
    wrapped = wrapping(path, source)
    if file.layout == "document":
        # A file that discovery cut up is cut up, whatever its first value is by now.
        yield from documents(path, wrapped, "true") or ()
        return
    with wrapped.opened(path) as xml:
        yield from elements(xml, source)


BROKEN = (EOFError, zlib.error, lzma.LZMAError, OSError, pa.ArrowException, UnicodeError)
"""What decompressors, decoders and footers raise of a damaged file; gzip's errors are ``OSError``."""


def contents(path: Path, source: Source) -> Contents:
    """Return the file's tag, its count of records and how they lie.

    Raises:
        UnreadableFile: The bytes are no whole file of the kind its name or the source says.
        OSError: The file cannot be opened.
    """
    path.open("rb").close()
    try:
        if source.kafka:
            return message_contents(path)
        count = COUNTERS.get(source.format, _native)
        return count(path, source)
    except BROKEN as broken:
        raise UnreadableFile(f"not a whole file: {broken or type(broken).__name__}") from broken


def _json(path: Path, source: Source) -> Contents:
    wrapped = wrapping(path, source)
    records = documents(path, wrapped, source.option("multiLine", default="auto"))
    if records is not None:
        return Contents(tag_of(path), sum(1 for _ in records), "document")
    return _lines(path, wrapped, records_on)


def _text(path: Path, source: Source) -> Contents:
    wrapped = wrapping(path, source)
    if source.option("wholetext", default="false") == "true":
        with wrapped.opened(path) as file:
            return Contents(tag_of(path), 1 if file.read(1) else 0, "lines" if wrapped.plain else "recoded")
    return _lines(path, wrapped, lines_in)


def _lines(path: Path, wrapped: Wrapping, records_in: Callable[[bytes], int]) -> Contents:
    if wrapped.plain:
        with wrapped.opened(path) as lines:
            return Contents(tag_of(path), counted_records(lines, records_in), "lines")
    with wrapped.text(path) as text:
        records = sum(records_in(line.encode("utf-8", wrapped.errors)) for line in each_line(text))
    return Contents(tag_of(path), records, "recoded")


def _xml(path: Path, source: Source) -> Contents:
    wrapped = wrapping(path, source)
    with wrapped.opened(path) as file:
        return Contents(tag_of(path), sum(1 for _ in elements(file, source)), "elements")


def _native(path: Path, source: Source) -> Contents:
    if source.format == "binaryFile":
        return Contents(tag_of(path), 1, "native")
    records, layout, schema = footer(path, source.format)
    return Contents(tag_of(path), records, layout, schema)


COUNTERS: dict[str, Callable[[Path, Source], Contents]] = {
    "json": _json, "csv": csv_contents, "text": _text, "xml": _xml,
}  # fmt: skip
