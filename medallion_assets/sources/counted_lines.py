"""How many records the lines of a file are, and the tag its bytes are known by."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, AnyStr, BinaryIO

import numpy as np

from medallion_assets.sources.errors import UnreadableFile

LONGEST_LINE = 128 << 20
"""Spark holds a line in memory, several times over, and a megabyte of gzip can be a line of a gigabyte."""

BLOCK_BYTES = 1 << 20
BLANK = b" \t\r\n"
"""What Spark's side trims before it calls a line blank."""

LINE_FEED = 10
SPACE = 32


def counted_records(lines: BinaryIO, records_in: Callable[[bytes], int]) -> int:
    """Return the records of all lines; a block of lines that are one record each is counted as a whole."""
    records = 0
    # Whole lines at a time: what a block's end cuts is read to its end.
    while block := lines.read(BLOCK_BYTES) + _line_of(lines):
        records += _plain_lines(block) or sum(map(records_in, block.splitlines(keepends=True)))
    return records


def _plain_lines(block: bytes) -> int:
    """Return how many lines a block has, 0 where one of them may be blank or hold a carriage return."""
    if b"\r" in block or block[0] <= SPACE:
        return 0
    marks, ends = line_ends(block)
    # A look at the bytes behind line ends takes a sixth of a search for each pair of bytes.
    return 0 if (marks[ends[ends < len(block) - 1] + 1] <= SPACE).any() else line_count(block, ends)


def line_ends(block: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return a block's bytes as numbers, and where its line feeds are."""
    marks = np.frombuffer(block, np.uint8)
    return marks, np.flatnonzero(marks == LINE_FEED)


def line_count(block: bytes, ends: np.ndarray) -> int:
    """Return how many lines end at these line feeds, with what follows the last one."""
    return len(ends) + (not block.endswith(b"\n"))


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
            copy; ``document``, ``cells``, ``loose_cells`` and ``elements`` cut into records first; ``rows``
            as Parquet.
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
