"""Columns of texts as typed columns, and the type a column of texts may be given.

Texts in the usual forms are cast by Arrow; of all others ``exact_value`` says what they denote. A hypothesis
test holds the casts against ``exact_value``.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from medallion_assets.sources.formats.exact_cells import CellOptions, arrow_type, exact_value
from medallion_assets.sources.formats.exact_texts import NotExact

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

DIGITS: dict[type[DataType], int] = {ByteType: 2, ShortType: 4, IntegerType: 9, LongType: 18}
"""Digits that fit each whole type, whatever they are."""

YEAR = r"(000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})"
DAY = YEAR + r"-((0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
TIME = r"[ T]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
"""Days and times of day that exist, 29 February apart."""

PLAIN_NUMBER = r"^-?(0|[1-9]\d*)(\.\d+)?$"
GIVEN_BACK: dict[type[DataType], str] = {
    LongType: r"^(0|-?[1-9]\d*)$",
    DoubleType: PLAIN_NUMBER,
    DecimalType: PLAIN_NUMBER,
    BooleanType: "^(true|false)$",
    DateType: r"^\d{4}-\d\d-\d\d$",
    TimestampType: r"^\d{4}-\d\d-\d\d" + TIME + "Z?$",
}
"""Texts that a column whose type was inferred takes: no leading zero, exponent, letter or other spelling."""

MOST_DIGITS = 38


def typed_cells(
    cells: pa.Array, kind: DataType, options: CellOptions, inferred: bool = False
) -> tuple[pa.Array, Rows]:
    """Return a column's values, and the rows whose text denotes none; empty texts are NULL.

    Args:
        cells: Strings.
        kind: The column's type.
        options: How dates and times are written.
        inferred: The type was not declared, but found in earlier files: texts have to look like those.
    """
    if isinstance(kind, StringType):
        return cells, np.array([], np.int64)
    there = _mask(pc.fill_null(pc.not_equal(cells, ""), False))
    fits = there & _matches(cells, GIVEN_BACK[type(kind)]) if inferred else there
    usual, values = _usual(cells, kind, options)
    if not usual.all():
        usual &= fits
        values = pc.if_else(pa.array(usual), values, None) if usual.any() else None
    rest = np.flatnonzero(fits & ~usual)
    found = _read(cells, rest, kind, options)
    if values is None or len(rest):
        values = _merged(values, len(cells), rest, found, arrow_type(kind))
    lost = rest[[value is None for value in found]] if len(rest) else rest
    return values, np.union1d(lost, np.flatnonzero(there & ~fits))


def _read(cells: pa.Array, rows: Rows, kind: DataType, options: CellOptions) -> list[Any]:
    known: dict[str, Any] = {}
    texts = cells.take(pa.array(rows)).to_pylist() if len(rows) else []
    for text in texts:
        if text not in known:
            try:
                known[text] = exact_value(text, kind, options)
            except NotExact:
                known[text] = None
    return [known[text] for text in texts]


def _merged(values: pa.Array | None, size: int, rows: Rows, found: list[Any], kind: pa.DataType) -> pa.Array:
    if values is None:
        whole: list[Any] = [None] * size
        for row, value in zip(rows, found, strict=True):
            whole[row] = value
        return pa.array(whole, kind)
    mask = np.zeros(size, bool)
    mask[rows] = True
    return pc.replace_with_mask(values, pa.array(mask), pa.array(found, kind))


def _mask(values: pa.Array) -> Mask:
    return np.asarray(values.to_numpy(zero_copy_only=False), bool)


def _matches(cells: pa.Array, pattern: str) -> Mask:
    return _mask(pc.fill_null(pc.match_substring_regex(cells, pattern), False))


def _usual(cells: pa.Array, kind: DataType, options: CellOptions) -> tuple[Mask, pa.Array | None]:
    """Return which texts are in a form that Arrow casts exactly, and the column cast with NULL elsewhere."""
    pattern = _usual_form(kind, options)
    if not pattern:
        return np.zeros(len(cells), bool), None
    usual = _matches(cells, pattern)
    texts = cells if usual.all() else pc.if_else(pa.array(usual), cells, None)
    if isinstance(kind, (DoubleType, FloatType)):
        return _binary_fractions(texts, arrow_type(kind), 15 if isinstance(kind, DoubleType) else 6)
    if isinstance(kind, TimestampType):
        texts = pc.replace_substring_regex(texts, "Z$", "")
        return usual, texts.cast(pa.timestamp("us")).cast(pa.int64()).cast(arrow_type(kind))
    return usual, texts.cast(arrow_type(kind))


def _usual_form(kind: DataType, options: CellOptions) -> str:
    if type(kind) in DIGITS:
        return rf"^-?\d{{1,{DIGITS[type(kind)]}}}$"
    if isinstance(kind, DecimalType):
        whole, scale = kind.precision - kind.scale, kind.scale
        fraction = rf"(\.\d{{1,{scale}}})?" if scale else ""
        return rf"^-?\d{{1,{whole}}}{fraction}$" if whole else ""
    if isinstance(kind, (DoubleType, FloatType)):
        return r"^-?\d{1,20}(\.\d{1,20})?$"
    if isinstance(kind, BooleanType):
        return "^(true|false)$"
    if isinstance(kind, DateType):
        return "" if options.date_format else f"^{DAY}$"
    if isinstance(kind, (TimestampType, TimestampNTZType)) and not options.timestamp_format:
        zone = "" if isinstance(kind, TimestampNTZType) else "Z?"
        return f"^{DAY}{TIME}{zone}$"
    return ""


def _binary_fractions(texts: pa.Array, kind: pa.DataType, digits: int) -> tuple[Mask, pa.Array]:
    """Return texts as doubles: those short enough never to lose a digit, and those that give theirs back."""
    values = texts.cast(kind)
    exact = pc.less_equal(pc.binary_length(texts), digits)
    if not pc.all(exact).as_py():
        # Of a whole number too large for its digits the cast back fills up with zeros.
        given_back = pc.equal(values.cast(pa.string()), texts)
        exact = pc.or_(exact, pc.and_(given_back, pc.match_substring(texts, ".")))
    usual = _mask(pc.fill_null(exact, False))
    return usual, pc.if_else(pa.array(usual), values, None)


class ColumnGuess:
    """Finds the type that gives back every text of a column it has looked at."""

    def __init__(self) -> None:
        self.kinds: list[DataType] = [
            LongType(), DoubleType(), BooleanType(), DateType(), TimestampType()
        ]  # fmt: skip
        self.whole, self.scales, self.empty = 0, set[int](), True

    def look(self, cells: pa.Array, options: CellOptions) -> None:
        """Leave out the types that do not give these texts back."""
        cells = cells.filter(pc.fill_null(pc.not_equal(cells, ""), False))
        if not len(cells):
            return
        self.empty = False
        for kind in list(self.kinds):
            if not self._gives_back(cells, kind, options):
                self.kinds.remove(kind)
        if len(self.scales) < 2 and self.whole >= 0:
            self._look_for_decimals(cells)

    def _gives_back(self, cells: pa.Array, kind: DataType, options: CellOptions) -> bool:
        if (
            isinstance(kind, DoubleType)
            and not _matches(cells, r"^-?(0|[1-9]\d{0,14})(\.0|\.\d*[1-9])?$").all()
        ):
            return False
        return not len(typed_cells(cells, kind, options, inferred=True)[1])

    def _look_for_decimals(self, cells: pa.Array) -> None:
        if not _matches(cells, PLAIN_NUMBER).all():
            self.whole = -1
            return
        cells = pc.utf8_ltrim(cells, "-")
        sizes = pc.binary_length(cells)
        points = pc.find_substring(cells, ".")
        wholes = pc.if_else(pc.less(points, 0), sizes, points)
        scales = pc.if_else(pc.less(points, 0), 0, pc.subtract(pc.subtract(sizes, points), 1))
        self.scales |= set(pc.unique(scales).to_pylist())
        self.whole = max(self.whole, pc.max(wholes).as_py())

    def kind(self) -> DataType:
        """Return the type; STRING where nothing else gives all texts back."""
        if self.empty:
            return StringType()
        if self.kinds:
            return self.kinds[0]
        (scale,) = self.scales if len(self.scales) == 1 else (MOST_DIGITS + 1,)
        fits = self.whole >= 0 and self.whole + scale <= MOST_DIGITS
        return DecimalType(max(self.whole + scale, 18), scale) if fits else StringType()
