"""Which JSON lines need no second look: one object each, whose every field fits the schema.

Spark's JSON reader drops a line's second value and unknown fields in silence, and what is parsed line by
line to find them costs four times as much. A strict reader outside Spark takes a file that has neither as
it is, and gives it typed; of any other, it takes the lines that have neither.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import msgspec
import pyarrow as pa
from pyspark.sql.types import (
    StructType,
)

from medallion_assets.sources.counted_lines import BLANK
from medallion_assets.sources.formats.exact_texts import (
    MISFIT,
    refuse_repeated_keys,
    string_columns,
    texts_of,
    with_texts,
)
from medallion_assets.sources.formats.simple_types import arrow_schema, line_decoder
from medallion_assets.sources.formats.strict_lines import rows_of, strictly_read

NONE = pa.table({})


@dataclass(frozen=True)
class Lines:
    """A file's non-blank lines: those that fit the schema, typed, and the others as they stand.

    Attributes:
        fitting: Rows of the schema.
        others: Lines.
        texts: For each of the others ``texts_of`` it.
    """

    fitting: pa.Table
    others: Sequence[bytes] = ()
    texts: Sequence[bytes | None] = ()


class Fitting:
    """What takes lines of a schema, and no others."""

    def __init__(self, schema: StructType) -> None:
        """Take the columns there are; lines fit none whose types are not among ``SIMPLE``."""
        self.columns = arrow_schema(schema)
        self.decoder = line_decoder(schema, texts=False) if self.columns is not None else None
        self.text_decoder = line_decoder(schema, texts=True) if self.columns is not None else None
        self.texts_met = False
        self.strings = string_columns(schema)
        self.fields = [f"f{n}" for n, name in enumerate(schema.names) if name in self.strings]

    @property
    def able(self) -> bool:
        """False where nothing is to be known of any line."""
        return self.columns is not None or bool(self.strings)

    def lines(self, data: bytes, records: int) -> Lines | None:
        """Return the lines of a file, None where its records are not one to a line, ``records`` in all."""
        whole = strictly_read(data, records, self.columns) if records and self.columns is not None else None
        return Lines(whole) if whole is not None else self._parted(data, records)

    def _parted(self, data: bytes, records: int) -> Lines | None:
        if data.count(b"\r") != data.count(b"\r\n"):
            # A lone carriage return ends a line too.
            return None
        lines = [line for line in data.split(b"\n") if line.strip(BLANK)]
        if len(lines) != records:
            return None
        good, others = self._told_apart(lines, cache(lambda: strictly_read(data, records) is not None))
        typed = rows_of(b"\n".join(good), len(good), self.columns) if good else NONE
        if typed is None:
            # One of them has a key twice, which only the strict reader sees.
            typed, others = NONE, lines
        others = [line.rstrip(b"\r") for line in others]
        return Lines(typed, others, [texts_of(line, self.strings) for line in others])

    def _told_apart(
        self, lines: list[bytes], is_strict: Callable[[], bool]
    ) -> tuple[list[bytes], list[bytes]]:
        """Return the lines that fit, with texts for strings, and the others."""
        good: list[bytes] = []
        others: list[bytes] = []
        for line in lines if self.decoder else ():
            try:
                good.append(self._fitted(line, is_strict))
            except MISFIT:
                others.append(line)
        return good, others if self.decoder else lines

    def _fitted(self, line: bytes, is_strict: Callable[[], bool]) -> bytes:
        if not self.texts_met:
            try:
                self.decoder.decode(line)  # type: ignore[union-attr]
                # White space before an object is sound, and rare.
                return line
            except msgspec.ValidationError:
                pass
        line.decode()
        found = self.text_decoder.decode(line)  # type: ignore[union-attr]
        if not with_texts(found, self.fields):
            return line
        if not is_strict():
            # Written anew a line loses a key that stands twice; in another the strict reader finds it.
            refuse_repeated_keys(line)
        # Where one is, most are: a try that fails takes longer than the other way.
        self.texts_met = True
        return msgspec.json.encode(found)
