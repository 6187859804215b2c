"""What a CSV file holds: counted line by line where no two parsers can disagree, else as RFC 4180 cuts it."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from medallion_assets.sources.contents import Contents, tag_of
from medallion_assets.sources.counted_lines import LONGEST_LINE, each_line
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats.csv_text import CsvText, Dialect, Row
from medallion_assets.sources.opening import Wrapping, wrapping
from medallion_assets.sources.options import Source

WIDEST_HEADER = 1000
"""Spark's CSV parser stops at 20,480 columns, and its plans grow slow long before."""


def csv_contents(path: Path, source: Source) -> Contents:
    """Return a CSV file's tag, its count of records, how they lie, and its header."""
    wrapped = wrapping(path, source)
    by_name = source.option("header", default="true") == "true"
    if wrapped.plain and by_name:
        plain = _plain_csv(path, wrapped, Dialect.of(source))
        if plain:
            return plain
    rows = csv_rows(path, source, wrapped)
    first = next(rows, None)
    header = _header(first, by_name)
    records = sum(1 for _ in rows) + (0 if first is None or (header and by_name) else 1)
    return Contents(tag_of(path), records, "cells", header)


def csv_rows(path: Path, source: Source, wrapping: Wrapping) -> Iterator[Row]:
    """Return a CSV file's records, header included, cut as RFC 4180 writes them.

    Raises:
        UnreadableFile: A record is too long for any reader to hold.
    """
    with wrapping.text(path) as text:
        # The text is held whole, its records are not: as objects they take ten times as much.
        for row in CsvText(text.read(), Dialect.of(source)).rows():
            if len(row.text) >= LONGEST_LINE:
                raise UnreadableFile(f"a record of it has {LONGEST_LINE >> 20} MiB and more")
            yield row


def _header(first: Row | None, by_name: bool) -> str:
    """Return the first record's cells as the header, or numbered names as Spark gives them."""
    if first is None or first.problem:
        # A header that cannot be read is a record like the others, all refused with their text.
        return ""
    return _line(first.cells if by_name else [f"_c{i}" for i in range(len(first.cells))])


def _plain_csv(path: Path, wrapped: Wrapping, dialect: Dialect) -> Contents | None:
    """Return a file no two parsers can disagree on, None for any other: no quote, one kind of line end."""
    records, header = 0, b""
    odd = [mark.encode() for mark in (dialect.quote, dialect.escape, dialect.comment, "\0") if mark]
    with wrapped.opened(path) as lines:
        for line in each_line(lines):
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
    return Contents(tag_of(path), max(records - 1, 0), "lines", _line(cells) if header else "")


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
