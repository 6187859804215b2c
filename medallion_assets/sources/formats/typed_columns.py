"""Columns of texts as typed columns, and the type a column of texts may be given.

Texts in the usual forms are cast by Arrow; of all others ``exact_value`` says what they denote. A hypothesis
test holds the casts against ``exact_value``.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types

from medallion_assets.sources.formats.exact_values import NotExact, TextOptions, arrow_type, exact_value
from medallion_assets.sources.formats.json_values import exact_json

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

DIGITS: dict[type[types.DataType], int] = {
    types.ByteType: 2, types.ShortType: 4, types.IntegerType: 9, types.LongType: 18,
}  # fmt: skip
"""Digits that fit each whole type, whatever they are."""

DAY = r"(000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})-" + (
    r"((0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
)
"""Days that exist, 29 February apart, which ``exact_value`` reads."""

ZONE = r"(Z|[+-](0\d|1[0-7]):[0-5]\d)"
TIME = r"([ T]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?%s)?)?"
PLAIN_NUMBER = r"^-?(0|[1-9]\d*)(\.\d+)?$"
GIVEN_BACK: dict[type[types.DataType], str] = {
    types.LongType: r"^(0|-?[1-9]\d*)$",
    types.DoubleType: PLAIN_NUMBER,
    types.DecimalType: PLAIN_NUMBER,
    types.BooleanType: "^(true|false)$",
    types.DateType: r"^\d{4}-\d\d-\d\d$",
    types.TimestampType: r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?Z?$",
}
"""Texts that a column whose type was inferred takes: no leading zero, exponent, letter or other spelling."""

MOST_DIGITS = 38


def typed_column(
    cells: pa.Array, kind: types.DataType, options: TextOptions, inferred: bool = False
) -> tuple[pa.Array, Rows]:
    """Return a column's values, and the rows whose text denotes none; empty texts are NULL.

    Args:
        cells: Strings.
        kind: The column's type.
        options: How dates and times are written.
        inferred: The type was not declared, but found in earlier files: texts have to look like those.
    """
    if isinstance(kind, types.StringType):
        return cells, np.array([], np.int64)
    there = _mask(pc.fill_null(pc.not_equal(cells, ""), False))
    fits = there & _matches(cells, GIVEN_BACK[type(kind)]) if inferred else there
    usual, values = usual_values(cells, kind, options)
    usual = usual & fits
    if not usual.all():
        values = pc.if_else(pa.array(usual), values, None) if usual.any() else None
    rest = np.flatnonzero(fits & ~usual)
    found = _read(cells, rest, kind, options)
    if values is None or len(rest):
        values = _merged(values, len(cells), rest, found, arrow_type(kind))
    lost = rest[[value is None for value in found]] if len(rest) else rest
    return values, np.union1d(lost, np.flatnonzero(there & ~fits))


def _read(cells: pa.Array, rows: Rows, kind: types.DataType, options: TextOptions) -> list[Any]:
    known: dict[str, Any] = {}
    nested = isinstance(kind, (types.StructType, types.ArrayType, types.MapType))
    texts = cells.take(pa.array(rows)).to_pylist() if len(rows) else []
    for text in texts:
        if text not in known:
            try:
                known[text] = exact_json(text, kind) if nested else exact_value(text, kind, options)
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


def usual_values(cells: pa.Array, kind: types.DataType, options: TextOptions) -> tuple[Mask, pa.Array | None]:
    """Return which texts are in a form that Arrow casts exactly, and the column cast with NULL elsewhere."""
    pattern = usual_form(kind, options)
    if not pattern:
        return np.zeros(len(cells), bool), None
    usual = _matches(cells, pattern)
    texts = cells if usual.all() else pc.if_else(pa.array(usual), cells, None)
    if isinstance(kind, (types.DoubleType, types.FloatType)):
        return _binary_fractions(texts, arrow_type(kind), 15 if isinstance(kind, types.DoubleType) else 6)
    if isinstance(kind, types.TimestampType):
        return usual, _instants(texts)
    return usual, texts.cast(arrow_type(kind))


def usual_form(kind: types.DataType, options: TextOptions) -> str:
    """Return a pattern of texts that Arrow casts as ``exact_value`` would, empty where there is none."""
    if type(kind) in DIGITS:
        return rf"^-?\d{{1,{DIGITS[type(kind)]}}}$"
    if isinstance(kind, types.DecimalType):
        whole, scale = kind.precision - kind.scale, kind.scale
        fraction = rf"(\.\d{{1,{scale}}})?" if scale else ""
        return rf"^-?\d{{1,{whole}}}{fraction}$" if whole else ""
    if isinstance(kind, (types.DoubleType, types.FloatType)):
        return r"^-?\d{1,20}(\.\d{1,20})?$"
    if isinstance(kind, types.BooleanType):
        return "^(true|false)$"
    if isinstance(kind, types.DateType):
        return "" if options.date_format else f"^{DAY}$"
    if isinstance(kind, (types.TimestampType, types.TimestampNTZType)) and not options.timestamp_format:
        return f"^{DAY}{TIME % ('' if isinstance(kind, types.TimestampNTZType) else ZONE + '?')}$"
    return ""


def _instants(texts: pa.Array) -> pa.Array:
    """Return times as instants; those that name no zone are UTC."""
    zoned = pc.match_substring_regex(texts, ZONE + "$")
    stored = pa.timestamp("us", "UTC")
    if not pc.any(zoned).as_py():
        return texts.cast(pa.timestamp("us")).cast(pa.int64()).cast(stored)
    if not pc.all(zoned).as_py():
        end = pc.if_else(pc.equal(pc.binary_length(texts), len("2026-01-01")), "T00:00Z", "Z")
        texts = pc.if_else(zoned, texts, pc.binary_join_element_wise(texts, end, ""))
    return texts.cast(stored)


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
        kinds = (types.LongType, types.DoubleType, types.BooleanType, types.DateType, types.TimestampType)
        self.kinds: list[types.DataType] = [kind() for kind in kinds]
        self.whole, self.scales, self.empty = 0, set[int](), True

    def look(self, cells: pa.Array, options: TextOptions) -> None:
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

    def _gives_back(self, cells: pa.Array, kind: types.DataType, options: TextOptions) -> bool:
        if (
            isinstance(kind, types.DoubleType)
            and not _matches(cells, r"^-?(0|[1-9]\d{0,14})(\.0|\.\d*[1-9])?$").all()
        ):
            return False
        return not len(typed_column(cells, kind, options, inferred=True)[1])

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

    def kind(self) -> types.DataType:
        """Return the type; STRING where nothing else gives all texts back."""
        if self.empty:
            return types.StringType()
        if self.kinds:
            return self.kinds[0]
        (scale,) = self.scales if len(self.scales) == 1 else (MOST_DIGITS + 1,)
        fits = self.whole >= 0 and self.whole + scale <= MOST_DIGITS
        return types.DecimalType(max(self.whole + scale, 18), scale) if fits else types.StringType()
