"""One CSV record at a time, as RFC 4180 writes it, with what is wrong kept to its own record.

Spark's parser lets one open quote swallow the rest of a file, and Python's cannot tell ``""`` from nothing.
"""

import re
from typing import NamedTuple

from medallion_assets.sources.formats.csv_dialect import Dialect

OPEN_QUOTE = "malformed CSV: a quote is left open, or text follows it"
WIDTH = "malformed CSV: not as many cells as the header"
NO_HEADER = "the file's header cannot be read"
NOT_TEXT = "not text in the file's encoding"

LINE_END = re.compile(rb"\r\n|\r|\n")
LF, CR = 10, 13


class Record(NamedTuple):
    """One record as the careful reader sees it.

    Attributes:
        cells: Its cells, None where nothing stands, ``b""`` where quotes do; empty for a record that is
            malformed.
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
