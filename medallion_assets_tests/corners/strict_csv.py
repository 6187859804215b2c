"""An independent reader of CSV: whole texts, one regular expression for each cell, nothing but ``str``."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from medallion_assets.sources.formats.csv_records import Dialect

OPEN_QUOTE = "malformed CSV: a quote is left open, or text follows it"
WIDTH = "malformed CSV: not as many cells as the header"


@dataclass(frozen=True)
class Row:
    """One record: its cells (None where nothing stands, "" where quotes do), its text, what is wrong."""

    cells: tuple[str | None, ...]
    text: str
    problem: str = ""


class CsvText:
    """A CSV file's text, read record by record."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        """Take the whole text: an open quote is only known at the end."""
        self.text, self.dialect = text, dialect
        q, e, sep = re.escape(dialect.quote), re.escape(dialect.escape), re.escape(dialect.sep)
        inside = f"[^{q}]*(?:{q}{q}[^{q}]*)*" if q == e else f"[^{q}{e}]*(?:{e}.[^{q}{e}]*)*"
        self._quoted = re.compile(f"{q}({inside}){q}(?={sep}|\r|\n|\\Z)", re.DOTALL)
        self._bare = re.compile(f"[^{sep}\r\n]*")
        self._line = re.compile(r"[^\r\n]*")
        self._end = re.compile(r"\r\n|\r|\n|\Z")

    def rows(self) -> Iterator[Row]:
        """Return the records, header included; blank lines and comments are none.

        A record that spans lines and is not as wide as the header was most likely begun by a stray
        quote: its first line is refused alone, so that the lines after it stand for themselves.
        """
        at, width = 0, 0
        while at < len(self.text):
            line = self._line.match(self.text, at)
            assert line is not None
            if self._is_none(line[0]):
                at = self._after(line.end())
                continue
            row, end = self._row(at, line.end())
            if width and len(row.cells) != width and not row.problem:
                spans = end > line.end()
                row = Row((), line[0] if spans else row.text, OPEN_QUOTE if spans else WIDTH)
                end = line.end()
            width = width or len(row.cells)
            yield row
            at = self._after(end)

    def _row(self, at: int, line_end: int) -> tuple[Row, int]:
        cells: list[str | None] = []
        start = at
        while True:
            found = self._quoted.match(self.text, at)
            if found:
                cells.append(self._unescaped(found[1]))
            elif self.text.startswith(self.dialect.quote, at):
                return Row((), self.text[start:line_end], OPEN_QUOTE), line_end
            else:
                found = self._bare.match(self.text, at)
                assert found is not None
                cells.append(found[0] or None)
            at = found.end()
            if not self.text.startswith(self.dialect.sep, at):
                return Row(tuple(cells), self.text[start:at]), at
            at += 1

    def _unescaped(self, inside: str) -> str:
        if self.dialect.escape == self.dialect.quote:
            return inside.replace(self.dialect.quote * 2, self.dialect.quote)
        return re.sub(re.escape(self.dialect.escape) + "(.)", r"\1", inside, flags=re.DOTALL)

    def _is_none(self, line: str) -> bool:
        if self.dialect.comment and line.startswith(self.dialect.comment):
            return True
        return not line.strip(" \t".replace(self.dialect.sep, ""))

    def _after(self, at: int) -> int:
        found = self._end.match(self.text, at)
        return found.end() if found else at
