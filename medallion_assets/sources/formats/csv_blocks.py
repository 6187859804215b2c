"""A CSV file's records, block by block, in bounded memory.

One look at the positions of a block's marks cuts it. Where a quote is that RFC 4180 does not explain, or a
byte that is not text, ``RecordReader`` reads that one record, and the block goes on behind it. Pyarrow then
splits the strict records into cells, and must find as many as were cut.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from medallion_assets.sources.counted_lines import LONGEST_LINE, Contents, tag_of
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats.csv_marks import Marks, Positions, line_breaks, undecodable
from medallion_assets.sources.formats.csv_records import (
    LINE_END,
    NO_HEADER,
    NOT_TEXT,
    OPEN_QUOTE,
    WIDTH,
    Dialect,
    Record,
    RecordReader,
    has_header,
    header_text,
    refuse_unread_text,
)
from medallion_assets.sources.opening import CsvFile
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import CUT, MOST_SHOWN

STRICT, LOOSE = "cells", "loose_cells"
"""Layouts of a CSV file: RFC 4180 explains each of its records, or not."""


class Refused(NamedTuple):
    """A record that cannot be a row: where its text is in the block, its line, and what is wrong with it."""

    begin: int
    end: int
    line: int
    problem: str


@dataclass
class Block:
    """The records of a piece of a file.

    Attributes:
        data: UTF-8, and whatever else the file holds.
        begins, ends: For each row where its text is in ``data``, its line end included.
        lines: For each row the line of the file it begins on.
        loose: Cells of the last rows, which the careful reader read; those before are strict RFC 4180.
        refused: Records that are no rows.
    """

    data: bytes
    begins: Positions
    ends: Positions
    lines: Positions
    loose: list[tuple[bytes | None, ...]]
    refused: list[Refused]

    @property
    def records(self) -> int:
        """The number of records."""
        return len(self.begins) + len(self.refused)

    def text(self, begin: int, end: int) -> bytes:
        """Return the text of a record without its line end."""
        return self.data[begin:end].removesuffix(b"\n").removesuffix(b"\r")

    def by_name(self, names: Sequence[str], dialect: Dialect) -> dict[str, pa.Array]:
        """Return the rows' cells by the names of their columns."""
        return dict(zip(names, self.cells(len(names), dialect), strict=True)) if len(self.begins) else {}

    def cells(self, width: int, dialect: Dialect) -> list[pa.Array]:
        """Return the rows' cells, an array of strings for each column; NULL for an empty cell."""
        strict = len(self.begins) - len(self.loose)
        columns = _parsed(self._strict_text(strict), width, dialect) if strict else []
        if strict and (columns is None or len(columns[0]) != strict):
            # The two readers disagree on how many records there are: the careful one decides.
            reader = RecordReader(dialect)
            records = [reader.read(self.data, int(at), True, width) for at in self.begins[:strict]]
            columns = _strings([record.cells for record in records if record], width)
        loose = _strings(self.loose, width) if self.loose or not columns else []
        pairs = zip_longest(columns or [], loose)
        return [pa.concat_arrays([part for part in pair if part is not None]) for pair in pairs]

    def _strict_text(self, rows: int) -> bytes:
        begins, ends = self.begins[:rows], self.ends[:rows]
        data, gaps = memoryview(self.data), np.flatnonzero(begins[1:] != ends[:-1])
        # Rows that follow each other are taken at once.
        firsts, lasts = [0, *(gaps + 1)], [*gaps, rows - 1]
        return b"".join(data[begins[i] : ends[j]] for i, j in zip(firsts, lasts, strict=True))


def _strings(rows: list[tuple[bytes | None, ...]], width: int) -> list[pa.Array]:
    columns = list(zip(*rows, strict=True)) or [()] * width
    return [pa.array(column, pa.binary()).cast(pa.string()) for column in columns]


def _parsed(text: bytes, width: int, dialect: Dialect) -> list[pa.Array] | None:
    names = [f"c{n}" for n in range(width)]
    options = pa.csv.ParseOptions(
        delimiter=dialect.sep, quote_char=dialect.quote, double_quote=dialect.quote == dialect.escape,
        newlines_in_values=True, ignore_empty_lines=False,
    )  # fmt: skip
    strings = pa.csv.ConvertOptions(
        check_utf8=False, column_types=dict.fromkeys(names, pa.string()), null_values=[""],
        strings_can_be_null=True, quoted_strings_can_be_null=False,
    )  # fmt: skip
    whole = pa.csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names)
    try:
        table = pa.csv.read_csv(pa.BufferReader(text), whole, options, strings)
    except (pa.ArrowException, ValueError):
        return None
    return [
        column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in table.columns
    ]


class Cutter:
    """Cuts the pieces of a file into blocks of records."""

    def __init__(self, dialect: Dialect, has_header: bool) -> None:
        self.dialect, self.has_header = dialect, has_header
        self.reader = RecordReader(dialect)
        self.line, self.width, self.begun, self.comments = 1, 0, False, False
        self.first: list[str] | None = None
        """The cells of the first record, once it was read; None where it cannot be read."""

    def blocks(self, pieces: Iterable[bytes]) -> Iterator[Block]:
        """Return the records of a file's pieces, which are UTF-8; a header is not among them.

        A record that is too long to be held, most likely one whose quote is never closed, is refused together
        with all that follows: whether a line behind it is a record or part of a cell, nobody can say.

        Raises:
            UnreadableFile: No record is before one that is too long to be held, or that one is whole.
        """
        data, carried, records = bytearray(), 0, 0
        for piece in pieces:
            data += piece
            # A record over many pieces is looked at again only once it has doubled: linear in all.
            if len(data) < min(2 * carried, LONGEST_LINE):
                continue
            block, rest = self._block(bytes(data), final=False)
            yield _of_bounded(block)
            del data[:rest]
            carried, records = len(data), records + block.records
            if carried >= LONGEST_LINE:
                if not records:
                    raise _too_long(self.line)
                yield self._rest(bytes(data[:MOST_SHOWN]))
                return
        yield _of_bounded(self._block(bytes(data), final=True)[0])

    def _rest(self, text: bytes) -> Block:
        none = np.array([], np.int64)
        return Block(text, none, none, none, [], [Refused(0, len(text), self.line, OPEN_QUOTE + CUT)])

    def _block(self, data: bytes, final: bool) -> tuple[Block, int]:
        """Return the records that are whole, and where the first that is not begins."""
        cut = _Cut(data, line_breaks(data, final), self.line)
        at = 0 if self.begun else self._begin(data, final)
        marks = None
        readable = self.first is not None or not self.has_header
        if self.width and readable and self.dialect.is_ascii:
            marks = Marks(data, cut.breaks, final, self.dialect, self.width)
        while self.begun and at < len(data):
            at = cut.strict(at, marks) if marks else at
            record = self.reader.read(data, at, final, self.width) if at < len(data) else None
            if record is None:
                break
            at = cut.careful(at, record, readable)
            self.width = self.width or len(record.cells)
        self.line += int(np.searchsorted(cut.breaks, at))
        return cut.block(), at

    def _begin(self, data: bytes, final: bool) -> int:
        """Read the first record, and return where the records begin."""
        at = 0
        while at < len(data) and (record := self.reader.read(data, at, final, 0)):
            after = _after(data, record.end)
            if not record.is_blank:
                self.begun, self.width = True, len(record.cells)
                if not record.problem:
                    self.first = [(cell or b"").decode("utf-8", "replace") for cell in record.cells]
                # A header that cannot be read is a record like the others, all refused with their text.
                return after if self.has_header and self.first is not None else at
            self.comments = self.comments or bool(data[at : record.end].strip())
            at = after
        return at


class _Cut:
    """The records of one block, collected on the way through it."""

    def __init__(self, data: bytes, breaks: Positions, line: int) -> None:
        self.data, self.breaks, self.line = data, breaks, line
        self.begins: list[Positions] = []
        self.ends: list[Positions] = []
        self.loose: list[tuple[int, int, tuple[bytes | None, ...]]] = []
        self.refused: list[tuple[int, int, str]] = []

    def strict(self, at: int, marks: Marks) -> int:
        """Take the records up to where the careful reader has to look; return where that is."""
        records = marks.records(marks.parity(at))
        stop = bisect_left(records.stops, at)
        until = records.stops[stop] if stop < len(records.stops) else len(self.data)
        if self.data.find(b"\n", at, until) < 0 and self.data.find(b"\r", at, until) < 0:
            # Many odd records in a row: no need to look for strict ones between them.
            return at
        first, last = np.searchsorted(records.begins, at), np.searchsorted(records.ends, until, "right")
        if first >= last:
            return at
        begins, ends = records.begins[first:last], records.ends[first:last]
        good = ~(records.blank[first:last] | records.wrong_width[first:last])
        self.begins.append(begins[good])
        self.ends.append(ends[good])
        for row in np.flatnonzero(records.wrong_width[first:last]):
            self.refused.append((int(begins[row]), int(ends[row]), WIDTH))
        return int(ends[-1])

    def careful(self, at: int, record: Record, readable: bool) -> int:
        """Take one record of the careful reader; return where the next begins."""
        after = _after(self.data, record.end)
        if record.is_blank:
            return after
        text, problem = self.data[at : record.end], record.problem
        if not problem and not readable:
            problem = NO_HEADER
        if not text.isascii() and len(undecodable(text, final=True)):
            problem = NOT_TEXT
        if problem:
            self.refused.append((at, after, problem))
        else:
            self.loose.append((at, after, record.cells))
        return after

    def block(self) -> Block:
        """Return what was taken."""
        begins = np.concatenate([*self.begins, np.array([at for at, _, _ in self.loose], np.int64)])
        ends = np.concatenate([*self.ends, np.array([end for _, end, _ in self.loose], np.int64)])
        lines = np.searchsorted(self.breaks, begins) + self.line
        refused = [
            Refused(at, end, int(np.searchsorted(self.breaks, at)) + self.line, problem)
            for at, end, problem in self.refused
        ]
        return Block(self.data, begins, ends, lines, [cells for _, _, cells in self.loose], refused)


def _of_bounded(block: Block) -> Block:
    long = [int(block.lines[row]) for row in np.flatnonzero(block.ends - block.begins >= LONGEST_LINE)]
    long += [record.line for record in block.refused if record.end - record.begin >= LONGEST_LINE]
    if long:
        raise _too_long(min(long))
    return block


def _too_long(line: int) -> UnreadableFile:
    most = f"{LONGEST_LINE >> 20} MiB and more, or its quote is never closed"
    return UnreadableFile(f"the record on line {line} has {most}")


def _after(data: bytes, end: int) -> int:
    """Return where the line end at a position ends."""
    found = LINE_END.match(data, end)
    return found.end() if found else end


def csv_contents(path: Path, source: Source) -> Contents:
    """Return a CSV file's tag, its count of records and its header.

    The count is of the records' ends; the rows that are held against it are what pyarrow makes of them.

    Raises:
        UnreadableFile: An option of the source makes a file of no records of one that has text.
    """
    cutter, records, layout = Cutter(Dialect.of(source), has_header(source)), 0, STRICT
    for block in cutter.blocks(CsvFile(path, source).pieces()):
        records += block.records
        layout = LOOSE if block.loose or block.refused else layout
    names = [f"_c{n}" for n in range(cutter.width)]
    header = header_text((cutter.first or []) if has_header(source) else names)
    if not records:
        refuse_unread_text(header if cutter.first else "", cutter.comments, source)
    return Contents(tag_of(path), records, layout, header)
