"""How a CSV file is written, and its records one at a time, as RFC 4180 writes them.

Spark's parser lets one open quote swallow the rest of a file, and Python's cannot tell ``""`` from nothing.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import NamedTuple

from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.options import Source, declared_columns

HEADER_CELL = re.compile(r'(?:"([^"]*(?:""[^"]*)*)"|([^,]*))(,|\Z)')
"""A cell of a header as ``header_text`` writes it."""
SHOWN = 200
"""Characters of a header that a message shows."""


@dataclass(frozen=True)
class Dialect:
    """The characters a file is written with: the reader options of ``Source``."""

    sep: str = ","
    quote: str = '"'
    escape: str = '"'
    comment: str = ""

    @staticmethod
    def of(source: Source) -> "Dialect":
        """Return the dialect a source declares; a quote in quotes is doubled unless ``escape`` is given."""
        quote = source.option("quote", default='"')
        sep = source.option("sep", "delimiter", default=",")
        return Dialect(
            sep, quote, source.option("escape", default=quote), source.option("comment", default="")
        )

    @property
    def is_ascii(self) -> bool:
        """Return true where every mark is one byte of UTF-8, as the block reader needs it."""
        return (self.sep + self.quote + self.escape + self.comment).isascii()

    @property
    def blanks(self) -> bytes:
        """Return the characters a blank line consists of; a line of separators is a record."""
        return " \t".replace(self.sep, "").encode()


def has_header(source: Source) -> bool:
    """Return true where the first record of each file names its columns."""
    return source.option("header", default="true") == "true"


def header_text(cells: Sequence[str]) -> str:
    """Return the cells of a header as one CSV record, in which form the ledger keeps it."""
    return ",".join(
        '"' + cell.replace('"', '""') + '"' if re.search('[,"\r\n]', cell) or not cell else cell
        for cell in cells
    )


def header_names(header: str) -> list[str]:
    """Return the names in a header of the ledger.

    Names are trimmed; an empty one is ``_c1`` by its position, a repeated one gets ``_2`` behind it. A name
    that the file itself gives always stays with the first column that has it.
    """
    cells = [cell.strip() for cell in _header_cells(header)]
    given = set(cells)
    names: dict[str, None] = {}
    turns: dict[str, count[int]] = {}
    for position, cell in enumerate(cells):
        name = plain = cell or f"_c{position}"
        if not cell or cell in names:
            numbered = (f"{plain}_{number}" for number in turns.setdefault(plain, count(2)))
            free = chain([] if cell else [plain], numbered)
            name = next(n for n in free if n not in given and n not in names)
        names[name] = None
    return list(names)


def column_names(header: str, source: Source) -> list[str]:
    """Return the names of a file's cells: the header's; without one the declared columns in their order."""
    names = header_names(header)
    if has_header(source) or not source.schema:
        return names
    declared = declared_columns(source.schema)
    return [*declared[: len(names)], *names[len(declared) :]]


def refuse_unread_text(header: str, comments: bool, source: Source) -> None:
    """Raise where a file has text and no record, most likely since an option is not meant for it.

    Args:
        header: Of a file without a record; empty where it has none.
        comments: The file has lines that are comments.
        source: How it is read.

    Raises:
        UnreadableFile: All of it is comments, or its one line is no header of the declared columns.
    """
    if comments and not header:
        mark = source.option("comment", default="")
        raise UnreadableFile(f"it has no record: every line begins with {mark}, as the option comment says")
    if not header or not has_header(source) or not source.schema:
        return
    declared = {name.lower() for name in declared_columns(source.schema)}
    if declared.isdisjoint(name.lower() for name in header_names(header)):
        raise UnreadableFile(
            f"its only line is taken for the header, and names no column of the schema: {header[:SHOWN]}. "
            "Where that is a record, the source needs header=false"
        )


def _header_cells(header: str) -> Iterator[str]:
    for found in HEADER_CELL.finditer(header):
        yield found[2] if found[1] is None else found[1].replace('""', '"')
        if not found[3]:
            return


OPEN_QUOTE = "malformed CSV: a quote is left open, or text follows it"
WIDTH = "malformed CSV: not as many cells as the header"
NO_HEADER = "the file's header cannot be read"
NOT_TEXT = "not text in the file's encoding"

LINE_END = re.compile(rb"\r\n|\r|\n")
LF, CR = 10, 13


class Record(NamedTuple):
    """One record as the careful reader sees it.

    Attributes:
        cells: Its cells, None for an empty cell, ``b""`` for empty quotes; no cells for a malformed
            record.
        end: Where its text ends, before the line end.
        problem: What is wrong with it.
        is_blank: True for a blank line or a comment, which is no record.
    """

    cells: tuple[bytes | None, ...]
    end: int
    problem: str = ""
    is_blank: bool = False


class RecordReader:
    """Reads one record at a time out of UTF-8 bytes, whatever it holds."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.sep, self.quote = dialect.sep.encode(), dialect.quote.encode()
        self.escape, self.comment = dialect.escape.encode(), dialect.comment.encode()
        self.blanks = dialect.blanks
        one_byte = len(self.sep) == 1
        sep, quote, escape = map(re.escape, (self.sep, self.quote, self.escape))
        bare = b"[^" + sep + b"\r\n]*" if one_byte else b"(?:(?!" + sep + b")[^\r\n])*"
        self._bare = re.compile(bare)
        self._marks = re.compile(escape + b"(?:" + quote + b"|.)|" + quote, re.DOTALL)
        self._escaped = re.compile(escape + b"(.)", re.DOTALL)

    def read(self, data: bytes, at: int, final: bool, width: int) -> Record | None:
        """Return the record that begins at a position, None where it goes on behind the end of the data.

        A record that spans lines and is not as wide as the header was most likely begun by a stray quote:
        its first line is refused alone, so that the lines after it stand for themselves.

        Args:
            data: UTF-8; other bytes are passed through.
            at: Where it begins.
            final: False where more data follows.
            width: Cells a record has, 0 where any number will do.
        """
        found = LINE_END.search(data, at)
        line_end = found.start() if found else len(data)
        if not final and (found is None or (found.end() == len(data) and data[-1] == CR)):
            return None
        line = data[at:line_end]
        if (self.comment and line.startswith(self.comment)) or not line.strip(self.blanks):
            return Record((), line_end, is_blank=True)
        record = self._cells(data, at, line_end, final)
        if record is None or (not final and record.end >= len(data) - 1):
            # The last byte may be half of a line end.
            return None
        if width and not record.problem and len(record.cells) != width:
            spans = record.end > line_end
            return Record((), line_end if spans else record.end, OPEN_QUOTE if spans else WIDTH)
        return record

    def _cells(self, data: bytes, at: int, line_end: int, final: bool) -> Record | None:
        cells: list[bytes | None] = []
        while True:
            if data.startswith(self.quote, at):
                start = at + len(self.quote)
                close = self._close(data, start)
                at = close + len(self.quote)
                if not final and (close < 0 or at == len(data)):
                    return None
                ends = at == len(data) or data[at] in (LF, CR) or data.startswith(self.sep, at)
                if close < 0 or not ends:
                    return Record((), line_end, OPEN_QUOTE)
                cells.append(self._unescaped(data[start:close]))
            else:
                bare = self._bare.match(data, at)
                assert bare is not None
                cells.append(bare[0] or None)
                at = bare.end()
            if not data.startswith(self.sep, at):
                return Record(tuple(cells), at)
            at += len(self.sep)

    def _close(self, data: bytes, at: int) -> int:
        """Return where the quote that closes a cell is, -1 where none is left."""
        if self.escape != self.quote:
            marks = self._marks.finditer(data, at)
            return next((mark.start() for mark in marks if mark[0] == self.quote), -1)
        at = data.find(self.quote, at)
        while at >= 0 and data.startswith(self.quote, at + len(self.quote)):
            at = data.find(self.quote, at + 2 * len(self.quote))
        return at

    def _unescaped(self, inside: bytes) -> bytes:
        if self.escape == self.quote:
            return inside.replace(self.quote * 2, self.quote)
        return self._escaped.sub(rb"\1", inside)
