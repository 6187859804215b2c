"""How many records the lines of a file are, and the tag its bytes are known by."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, AnyStr, BinaryIO

from medallion_assets.sources.errors import UnreadableFile

LONGEST_LINE = 128 << 20
"""Spark holds a line in memory, several times over, and a megabyte of gzip can be a line of a gigabyte."""

BLOCK_BYTES = 1 << 20
BLANK = b" \t\r\n"
"""What Spark's side trims before it calls a line blank."""

WHITE = (b"\n", b" ", b"\t")
MAY_BE_BLANK = (b"\r", b"\n\n", b"\n ", b"\n\t")
"""Without one of these, each line of a block that begins with none of ``WHITE`` is one record."""


def counted_records(lines: BinaryIO, records_in: Callable[[bytes], int]) -> int:
    """Return the records of all lines; a block of lines that are one record each is counted as a whole."""
    records = 0
    # Whole lines at a time: what a block's end cuts is read to its end.
    while block := lines.read(BLOCK_BYTES) + _line_of(lines):
        odd = any(mark in block for mark in MAY_BE_BLANK) or block[:1] in WHITE
        records += sum(map(records_in, block.splitlines(keepends=True))) if odd else block.count(b"\n")
        records += 0 if odd or block.endswith(b"\n") else 1
    return records


def each_line(file: IO[AnyStr]) -> Iterator[AnyStr]:
    """Return the file's lines with their ends.

    Raises:
        UnreadableFile: One has ``LONGEST_LINE`` bytes or characters and more.
    """
    while line := _line_of(file):
        yield line


def _line_of(file: IO[AnyStr]) -> AnyStr:
    line = file.readline(LONGEST_LINE)
    if len(line) == LONGEST_LINE:
        raise UnreadableFile(f"a line of it has {LONGEST_LINE >> 20} MiB and more, which no reader can hold")
    return line


def lines_in(line: bytes) -> int:
    """Return the lines that Spark makes of one of Python's."""
    # Spark ends a line at a lone carriage return too; Python's file iteration does not.
    return len(line.splitlines())


def records_on(line: bytes) -> int:
    """Return the lines of it that are not blank."""
    if b"\r" in line[:-2]:
        return sum(1 for part in line.splitlines() if part.strip(BLANK))
    return 1 if line.strip(BLANK) else 0


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
