"""Where the marks of a block of CSV are: quotes, separators and line ends, and which of them end a record."""

import codecs
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from medallion_assets.sources.formats.csv_records import CR, LF, Dialect

Positions = npt.NDArray[np.int64]


class Marks:
    """Where the marks of a block are, and which of its records hold, by the parity of quotes before them.

    RFC 4180 in one look: a quote that opens follows a mark, one that closes is followed by one, and where
    the number of quotes before a line end is even, a record ends.
    """

    def __init__(self, data: bytes, breaks: Positions, final: bool, dialect: Dialect, width: int) -> None:
        self.dialect, self.width = dialect, width
        # A line end before and behind, so that every mark has neighbours.
        self.padded = np.frombuffer(b"\n" + data + b"\n", np.uint8)
        self.bytes = self.padded[1:-1]
        is_quote = self.bytes == ord(dialect.quote)
        self.quotes = np.flatnonzero(is_quote)
        self.parities = np.cumsum(is_quote, dtype=np.uint8) & 1 if len(self.quotes) else None
        self.seps = np.flatnonzero(self.bytes == ord(dialect.sep))
        self.breaks = breaks
        self.odd_bytes = undecodable(data, final)
        if dialect.escape != dialect.quote:
            escapes = np.flatnonzero(self.bytes == ord(dialect.escape))
            self.odd_bytes = np.sort(np.concatenate([self.odd_bytes, escapes]))
        self._by_parity: dict[int, Records] = {}

    def records(self, parity: int) -> "Records":
        """Return the records there are if quotes of this parity open a cell."""
        if parity not in self._by_parity:
            self._by_parity[parity] = self._cut(parity)
        return self._by_parity[parity]

    def parity(self, at: int) -> int:
        """Return whether the number of quotes before a position is odd."""
        return int(self.parities[at - 1]) if self.parities is not None and at else 0

    def _cut(self, parity: int) -> "Records":
        breaks, seps = np.arange(len(self.breaks)), self.seps
        if self.parities is not None:
            breaks = np.flatnonzero(self.parities[self.breaks] == parity)
            seps = seps[self.parities[seps] == parity]
        ends = self.breaks[breaks] + 1
        begins = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
        wrong_width = np.diff(np.searchsorted(seps, ends), prepend=0) + 1 != self.width
        spans = np.diff(breaks, prepend=-1) > 1
        stops = [self.odd_bytes, begins[spans & wrong_width], self._unexplained(parity)]
        if self.dialect.comment:
            stops.append(begins[self.bytes[begins] == ord(self.dialect.comment)])
        blank = self._blank(begins, ends)
        return Records(begins, ends, blank, wrong_width & ~blank, np.sort(np.concatenate(stops)).tolist())

    def _blank(self, begins: Positions, ends: Positions) -> npt.NDArray[np.bool_]:
        blanks = self.dialect.blanks + b"\r\n"
        blank = np.isin(self.bytes[begins], list(blanks))
        for row in np.flatnonzero(blank & (self.bytes[begins] != LF)):
            blank[row] = not self.bytes[begins[row] : ends[row]].tobytes().strip(blanks)
        return blank

    def _unexplained(self, parity: int) -> Positions:
        """Return the quotes that neither open nor close a cell, nor are one of two in a cell."""
        if not len(self.quotes):
            return self.quotes
        edges = np.zeros(256, bool)
        edges[[LF, CR, ord(self.dialect.sep)]] = True
        before, after = self.padded[self.quotes], self.padded[self.quotes + 2]
        opens, closes = edges[before], edges[after]
        if self.dialect.quote == self.dialect.escape:
            opens |= before == ord(self.dialect.quote)
            closes |= after == ord(self.dialect.quote)
        opening = (np.arange(len(self.quotes)) & 1) == parity
        return self.quotes[~np.where(opening, opens, closes)]


class Records(NamedTuple):
    """The records of a block under one parity, and where the careful reader has to look."""

    begins: Positions
    ends: Positions
    blank: npt.NDArray[np.bool_]
    wrong_width: npt.NDArray[np.bool_]
    stops: list[int]


def line_breaks(data: bytes, final: bool) -> Positions:
    """Return the last byte of each line end; a carriage return at the end of a piece may be half of one."""
    codes = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(codes == LF)
    if CR not in data:
        return breaks
    returns = np.flatnonzero(codes == CR)
    alone = np.append(codes, 0 if final else LF)[returns + 1] != LF
    return np.sort(np.concatenate([breaks, returns[alone]]))


def undecodable(data: bytes, final: bool) -> Positions:
    """Return where bytes are that are no UTF-8."""
    found: list[int] = []
    view, at = memoryview(data), 0
    while at < len(data) and not data.isascii():
        try:
            codecs.utf_8_decode(view[at:], "strict", final)
            break
        except UnicodeDecodeError as error:
            found.append(at + error.start)
            at += error.end
    return np.array(found, np.int64)
