"""How a CSV file is written, and what its columns are called."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count

import sqlglot

from medallion_assets.sources.options import Source

HEADER_CELL = re.compile(r'(?:"([^"]*(?:""[^"]*)*)"|([^,]*))(,|\Z)')
"""A cell of a header as ``header_text`` writes it."""


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
    table = sqlglot.parse_one(f"CREATE TABLE t ({source.schema})", dialect="spark").this
    declared = [column.name for column in table.expressions]
    return [*declared[: len(names)], *names[len(declared) :]]


def _header_cells(header: str) -> Iterator[str]:
    for found in HEADER_CELL.finditer(header):
        yield found[2] if found[1] is None else found[1].replace('""', '"')
        if not found[3]:
            return
