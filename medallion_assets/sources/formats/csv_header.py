"""What a CSV's columns are called."""

import sqlglot

from medallion_assets.sources.formats.csv_text import CsvText, Dialect
from medallion_assets.sources.options import Source

LEDGERS = Dialect(",", '"', '"', "")
"""How the ledger writes a header, whatever the file's own dialect."""


def header_names(header: str) -> list[str]:
    """Return a header's names: trimmed, ``_c1`` where empty, with ``_2`` where one stands a second time."""
    first = next(CsvText(header, LEDGERS).rows(), None)
    names: list[str] = []
    for position, cell in enumerate(first.cells if first else ()):
        plain = (cell or "").strip() or f"_c{position}"
        name, turn = plain, 2
        while name in names:
            name, turn = f"{plain}_{turn}", turn + 1
        names.append(name)
    return names


def column_names(header: str, source: Source) -> list[str]:
    """Return the names of a file's cells: the header's; without one the declared columns in their order."""
    names = header_names(header)
    if source.option("header", default="true") == "true" or not source.schema:
        return names
    table = sqlglot.parse_one(f"CREATE TABLE t ({source.schema})", dialect="spark").this
    declared = [column.name for column in table.expressions]
    return [*declared[: len(names)], *names[len(declared) :]]
