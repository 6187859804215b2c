"""JSON lines taken typed by a fast parser, where each is exactly one object that fits the schema.

Arrow's parser takes a block of lines or none of it. Of a block it does not take, msgspec finds the lines that
may fit, and these are parsed again. What is left goes to ``json_rows``, which decides: this file saves
time and never decides otherwise.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyspark.sql import types

from medallion_assets.sources.counted_lines import BLANK, line_ends
from medallion_assets.sources.formats.exact_numbers import Wrapping, rounded, rounded_on
from medallion_assets.sources.formats.exact_values import BITS, NotExact, TextOptions
from medallion_assets.sources.formats.json_values import TIMES, JsonText, stored_type, types_in
from medallion_assets.sources.formats.typed_columns import usual_form, usual_values

ISO = TextOptions()
PARSED_AT_ONCE = 4 << 20
"""Bytes; a longer record is left to the careful reader."""
FEW = 64
"""Lines that are not worth another try of the parser where one of them does not fit."""

OPENS, CLOSES, RETURN = b"{}\r"
MISFIT = (msgspec.MsgspecError, ValueError, RecursionError)
KEPT = (b'"', b"n")
"""How a string begins, and null: a column of strings takes any other value as its text."""


@dataclass
class Lines:
    """Lines of a block: rows of the schema with their lines' numbers, and the other lines with theirs."""

    rows: list[pa.Table] = field(default_factory=list)
    numbers: list[Sequence[int]] = field(default_factory=list)
    others: list[tuple[int, bytes]] = field(default_factory=list)


class TypedReader:
    """What takes lines of a schema, and no others."""

    def __init__(self, schema: types.StructType) -> None:
        """Take the columns there are."""
        parsed = parsed_type(schema)
        self.schema, self.parsed = schema, None if parsed is None else pa.schema(list(parsed))
        self.rounds = any(isinstance(kind, (types.DoubleType, types.FloatType)) for kind in types_in(schema))
        scales = [kind.scale for kind in types_in(schema) if isinstance(kind, types.DecimalType)]
        self.wrapping = Wrapping(max(scales)) if scales else None
        self.decoder: msgspec.json.Decoder[Any] | None = None
        self.text_decoder: msgspec.json.Decoder[Any] | None = None
        self.text_fields: list[str] = []
        self.texts_seen = False
        if self.parsed is not None:
            self._make_decoders()

    def _make_decoders(self) -> None:
        fields = {f.name: _decoded_type(f.dataType) for f in self.schema.fields}
        strings = [f.name for f in self.schema.fields if isinstance(f.dataType, types.StringType)]
        self.text_fields = [f"f{n}" for n, name in enumerate(self.schema.names) if name in strings]
        try:
            self.decoder = msgspec.json.Decoder(_decoded_object(fields))
            raw = fields | dict.fromkeys(strings, msgspec.Raw)
            self.text_decoder = msgspec.json.Decoder(_decoded_object(raw))
        except ValueError:
            # A name with a quote or a backslash in it.
            self.decoder = None

    def read(self, block: bytes) -> Lines:
        """Return the non-blank lines of a block of whole lines."""
        # Looked for in whole blocks: a pattern over each line takes ten times as long as its decoding.
        exact = not (self.rounds and rounded(block))
        exact = exact and not (self.wrapping and self.wrapping.is_in(block))
        if exact and self.parsed is not None and (whole := self.rows_of(block)) is not None:
            return Lines([whole], [range(len(whole))])
        lines = self.split(block)
        if self.decoder is None:
            return lines
        found, fitting = Lines(), []
        for number, line in lines.others:
            try:
                fitting.append((number, line, self._fitted(line, exact)))
            except MISFIT:
                found.others.append((number, line))
        self._parse(fitting, found)
        found.others.sort()
        return found

    def split(self, block: bytes) -> Lines:
        """Return the non-blank lines of a block of whole lines, none of them as a row."""
        return Lines(others=[(n, line) for n, line in enumerate(block.splitlines()) if line.strip(BLANK)])

    def rows_of(self, block: bytes) -> pa.Table | None:
        """Return exact lines as rows, None where one of them is anything but an object that fits."""
        if not (records := objects_on_lines(block)):
            return None
        parse = pa.json.ParseOptions(explicit_schema=self.parsed, unexpected_field_behavior="error")
        try:
            at_once = pa.json.ReadOptions(block_size=PARSED_AT_ONCE)
            read = pa.json.read_json(pa.BufferReader(block), at_once, parse)
            # The parser itself takes bytes that are no UTF-8.
            read.validate(full=True)
            if read.num_rows != records:
                return None
            columns = [_stored(read[f.name], f.dataType) for f in self.schema.fields]
        except (pa.ArrowException, ValueError, NotExact):
            return None
        return pa.table(columns, self.schema.names)

    def _fitted(self, line: bytes, exact: bool) -> bytes:
        """Return a line that may fit, with strings for the values that columns of strings take as text."""
        wraps = self.wrapping and self.wrapping.number.search(line)
        if not exact and (wraps or (self.rounds and rounded_on(line))):
            raise ValueError
        if not self.texts_seen:
            try:
                self.decoder.decode(line)  # type: ignore[union-attr]
                return line
            except msgspec.ValidationError:
                pass
        line.decode()
        decoded = self.text_decoder.decode(line)  # type: ignore[union-attr]
        if not _texts_for_values(decoded, self.text_fields):
            return line
        # Written again a line loses a key that is there twice.
        json.loads(line, object_pairs_hook=_refuse_repeated)
        # Where one is, most are: a try that fails takes longer than the other way.
        self.texts_seen = True
        return msgspec.json.encode(decoded)

    def _parse(self, lines: Sequence[tuple[int, bytes, bytes]], found: Lines) -> None:
        """Add lines as rows, or half of them, or where a few are left as others."""
        if not lines:
            return
        rows = self.rows_of(b"\n".join(fitted for _, _, fitted in lines))
        if rows is not None:
            found.rows.append(rows)
            found.numbers.append([number for number, _, _ in lines])
        elif len(lines) <= FEW:
            found.others += [(number, line) for number, line, _ in lines]
        else:
            middle = len(lines) // 2
            self._parse(lines[:middle], found)
            self._parse(lines[middle:], found)


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice")


def _texts_for_values(decoded: Any, columns: Sequence[str]) -> bool:
    changed = False
    for column in columns:
        value = getattr(decoded, column)
        if value is not None and not (text := bytes(value)).startswith(KEPT):
            setattr(decoded, column, msgspec.Raw(msgspec.json.encode(text.decode())))
            changed = True
    return changed


def objects_on_lines(block: bytes) -> int:
    """Return how many lines there are, 0 where one does not start and end as an object.

    Two values on one line then make more rows than lines, which is seen by counting.
    """
    body = block.removesuffix(b"\n").removesuffix(b"\r")
    if not (body.startswith(b"{") and body.endswith(b"}")):
        return 0
    marks, ends = line_ends(body)
    before = marks[ends - 1]
    if b"\r" in body:
        if body.count(b"\r") != body.count(b"\r\n"):
            return 0
        before = np.where(before == RETURN, marks[ends - 2], before)
    return len(ends) + 1 if ((before == CLOSES) & (marks[ends + 1] == OPENS)).all() else 0


def _stored(column: Any, kind: types.DataType) -> pa.ChunkedArray:
    """Return parsed values as they are stored.

    Raises:
        NotExact, pa.ArrowException: One cannot be.
    """
    stored = stored_type(kind)
    if column.type == stored:
        return column
    return pa.chunked_array([_cast(chunk, kind) for chunk in column.chunks], stored)


def _cast(values: Any, kind: Any) -> pa.Array:
    stored = stored_type(kind)
    if values.type == stored:
        return values
    if pa.types.is_struct(stored):
        inner = [_cast(pc.struct_field(values, [n]), f.dataType) for n, f in enumerate(kind.fields)]
        # The fields of a NULL are NULL as struct_field gives them, and so is its place.
        return pa.StructArray.from_arrays(inner, fields=list(stored), mask=values.is_null())
    if pa.types.is_list(stored):
        return pa.ListArray.from_arrays(
            values.offsets, _cast(values.values, kind.elementType), stored, mask=values.is_null()
        )
    if isinstance(kind, types.FloatType):
        return _single(values)
    return _times(values, kind)


def _single(values: pa.Array) -> pa.Array:
    single = pc.cast(values, pa.float32(), safe=False)
    written = pc.cast(pc.cast(single, pa.string()), pa.float64())
    if pc.any(pc.not_equal(written, values)).as_py():
        raise NotExact
    return single


def _times(texts: pa.Array, kind: types.DataType) -> pa.Array:
    usual, values = usual_values(texts, kind, ISO)
    if values is None or not (usual | np.asarray(texts.is_null())).all():
        raise NotExact
    return values


def parsed_type(kind: types.DataType) -> pa.DataType | None:
    """Return the type that Arrow's JSON parser is asked for, None where it cannot parse the type exactly."""
    if isinstance(kind, types.StructType):
        inner = [(field.name, parsed_type(field.dataType)) for field in kind.fields]
        return pa.struct(inner) if inner and all(parsed for _, parsed in inner) else None
    if isinstance(kind, types.ArrayType):
        element = parsed_type(kind.elementType)
        return element and pa.list_(element)
    if isinstance(kind, (types.MapType, types.BinaryType, JsonText)):
        return None
    if isinstance(kind, types.FloatType):
        return pa.float64()
    return pa.string() if isinstance(kind, TIMES) else stored_type(kind)


def _decoded_type(kind: types.DataType) -> Any:
    """Return msgspec's type, which takes what Arrow's parser takes, and little else."""
    if isinstance(kind, types.StructType):
        return _decoded_object({field.name: _decoded_type(field.dataType) for field in kind.fields})
    if isinstance(kind, types.ArrayType):
        return list[_decoded_type(kind.elementType) | None]  # type: ignore[misc]
    if type(kind) in BITS:
        half = 1 << (BITS[type(kind)] - 1)
        return Annotated[int, msgspec.Meta(ge=-half, le=half - 1)]
    if isinstance(kind, TIMES):
        return Annotated[str, msgspec.Meta(pattern=usual_form(kind, ISO))]
    return DECODED[type(kind)]


DECODED: dict[type[types.DataType], Any] = {
    types.StringType: str, types.BooleanType: bool, types.DecimalType: Decimal,
    types.FloatType: float, types.DoubleType: float,
}  # fmt: skip


def _decoded_object(fields: dict[str, Any]) -> Any:
    """Return msgspec's type for an object of just these fields, any of which may be missing or NULL.

    Raises:
        ValueError: msgspec does not take a name with a quote or a backslash in it.
    """
    names = {f"f{number}": name for number, name in enumerate(fields)}
    return msgspec.defstruct(
        "Object",
        [(name, _or_null(kind), None) for name, kind in zip(names, fields.values(), strict=True)],
        rename=names,
        forbid_unknown_fields=True,
        omit_defaults=True,
    )


def _or_null(kind: Any) -> Any:
    return kind if kind is msgspec.Raw else kind | None
