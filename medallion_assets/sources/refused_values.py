"""Count the values of each field in raw records of the quarantine, for the conservation of values."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from medallion_assets.sources.formats.csv_records import Dialect, RecordReader, column_names
from medallion_assets.sources.formats.json_counts import members
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import BY_COLUMNS


class RefusedRecord(NamedTuple):
    """A raw record in quarantine.

    Attributes:
        path: Its file.
        text: The record.
        reason: Why it was refused.
        is_exact: True where the text equals the file's; false for bytes that are no valid text.
    """

    path: str
    text: str
    reason: str
    is_exact: bool


def refused_values(
    files: Iterable[Entry], source: Source, columns: Mapping[str, bool]
) -> Callable[[RefusedRecord], Counter[str]]:
    """Return a function that counts the values of a raw record in quarantine.

    A CSV record may look like JSON: how its text is read is for the format to say.

    Args:
        files: The files that records are from.
        source: How they are written.
        columns: The records' columns, and whether each is a STRING: no other takes an empty cell.
    """
    if source.format != "csv":
        return lambda record: members(record.text)
    cells = _refused_cells(files, source, columns)

    def counted(record: RefusedRecord) -> Counter[str]:
        if source.select and record.reason.startswith(BY_COLUMNS):
            return members(record.text)
        # A record with bytes that are not text was never cut into cells.
        return cells(record.path, record.text) if record.is_exact else Counter()

    return counted


def _refused_cells(
    files: Iterable[Entry], source: Source, columns: Mapping[str, bool]
) -> Callable[[str, str], Counter[str]]:
    reader, null = RecordReader(Dialect.of(source)), source.option("nullValue", default="").encode()
    names = {file.path: column_names(file.header, source) for file in files}

    def counted(path: str, text: str) -> Counter[str]:
        here = names.get(path, [])
        record = reader.read(text.encode(), 0, True, len(here))
        return Counter(
            name
            for name, cell in zip(here, record.cells if record else (), strict=False)
            if cell is not None
            and (name not in columns or ((cell or columns[name]) and cell != (null or None)))
        )

    return counted
