"""The columns and types of JSON and XML objects: what Spark infers from them, without starting a Spark job.

The rules are those of Spark's ``JsonInferSchema``, with case-sensitive keys and two exceptions: a fraction
that a double would round is text, since a double would change it; and a key that one object has twice is one
column, where Spark makes two of one name. A block that Arrow's parser takes as it is says
its types by itself; of any other each record is looked at.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyspark.sql import types

from medallion_assets.delta.names import folded
from medallion_assets.sources.counted_lines import BLANK
from medallion_assets.sources.formats.exact_numbers import rounded
from medallion_assets.sources.formats.exact_values import LARGEST, is_rounded
from medallion_assets.sources.formats.json_blocks import objects_on_lines
from medallion_assets.sources.formats.json_rows import object_of
from medallion_assets.sources.formats.json_scan import Value, ends_arrow
from medallion_assets.sources.formats.json_values import is_text
from medallion_assets.sources.formats.parsed_files import pieces_of, whole_lines
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source

EXACT = 2.0**53
"""An integer too long for BIGINT comes as a double of more than this; to Spark it is a decimal."""

LONG = types.DecimalType(20, 0)
MOST_DIGITS = 38
DEEPEST = 50
"""Levels of objects and arrays that become types; what is nested deeper is text."""

KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Unclear(Exception):
    """Arrow may have read a value as another type than Spark would."""


@dataclass
class Seen:
    """Types that values at one place have.

    Attributes:
        simple: Types of values that are no objects and no arrays.
        fields: By key what an object's values are, None where there was no object.
        element: What an array's values are, None where there was no array.
    """

    simple: set[types.DataType] = field(default_factory=set)
    fields: "dict[str, Seen] | None" = None
    element: "Seen | None" = None

    def at(self, key: str) -> "Seen":
        """Return what is known of an object's field."""
        if self.fields is None:
            self.fields = {}
        return self.fields.setdefault(key, Seen())

    def inside(self) -> "Seen":
        """Return what is known of an array's values."""
        self.element = self.element or Seen()
        return self.element

    def kind(self) -> types.DataType | None:
        """Return the type that takes them all, None for objects without a field."""
        kinds: list[types.DataType | None] = list(self.simple)
        if self.fields is not None:
            inner = [(name, seen.kind()) for name, seen in sorted(self.fields.items(), key=_as_java_sorts)]
            known = [types.StructField(name, kind) for name, kind in inner if kind is not None]
            kinds.append(types.StructType(known) if known else None)
        if self.element is not None:
            element = self.element.kind()
            kinds.append(None if element is None else types.ArrayType(element))
        if not kinds:
            return types.StringType()
        return kinds[0] if len(kinds) == 1 else reduce(_common, [k or types.StructType() for k in kinds])


def _as_java_sorts(item: tuple[str, Seen]) -> bytes:
    return item[0].encode("utf-16-be", "surrogatepass")


def _common(one: types.DataType, other: types.DataType) -> types.DataType:
    numbers = (types.LongType, types.DoubleType, types.DecimalType)
    if not isinstance(one, numbers) or not isinstance(other, numbers):
        return types.StringType()
    if isinstance(one, types.DoubleType) or isinstance(other, types.DoubleType):
        return types.DoubleType()
    digits = max(
        kind.precision if isinstance(kind, types.DecimalType) else LONG.precision for kind in (one, other)
    )
    return types.DecimalType(digits, 0)


def inferred(files: Sequence[Entry], source: Source) -> types.StructType:
    """Return the columns of the files' sound records and the types that Spark infers for them.

    Of columns alike but for case the most frequent is first: it is the one that a table can have.
    """
    kind = _seen(files, source).kind()
    kinds = {f.name: f.dataType for f in kind.fields} if isinstance(kind, types.StructType) else {}
    names = _frequent_first(list(kinds), files, source)
    return types.StructType([types.StructField(name, kinds[name]) for name in names])


def counted_keys(files: Sequence[Entry], source: Source) -> list[str]:
    """Return the keys of the files' sound records; of keys alike but for case the most frequent first."""
    keys = sorted(_seen(files, source).fields or (), key=lambda key: (folded(key), key))
    return _frequent_first(keys, files, source)


def _frequent_first(keys: list[str], files: Sequence[Entry], source: Source) -> list[str]:
    places = {folded(key): place for place, key in reversed(list(enumerate(keys)))}
    if len(places) == len(keys):
        return keys
    counts = Counter(key for keys_of in _keys(files, source) for key in keys_of)
    return sorted(keys, key=lambda key: (places[folded(key)], -counts[key], key))


def files_with_keys(files: Sequence[Entry], source: Source, wanted: set[str]) -> dict[str, str]:
    """Return for each of the keys the first file by path that has it."""
    found: dict[str, str] = {}
    for file in sorted(files, key=lambda file: file.path):
        for keys in _keys([file], source):
            found |= dict.fromkeys(keys & wanted - found.keys(), file.path)
            if len(found) == len(wanted):
                return found
    return found


def _keys(files: Sequence[Entry], source: Source) -> Iterator[set[str]]:
    for file in files:
        for block in whole_lines(pieces_of(file, source)):
            for line in block.splitlines():
                yield _keys_of(line)


def _keys_of(line: bytes) -> set[str]:
    try:
        return set(KEYS.decode(line))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        value = object_of(line.decode("utf-8", "replace"))
        return set() if isinstance(value, str) else {key for key, _, _ in value.content if is_text(key)}


def _seen(files: Sequence[Entry], source: Source) -> Seen:
    root = Seen(fields={})
    for file in files:
        for block in whole_lines(pieces_of(file, source)):
            if not _by_arrow(block, root):
                _by_record(block, root)
    return root


def _by_record(block: bytes, root: Seen) -> None:
    for line in block.splitlines():
        if not line.strip(BLANK):
            continue
        try:
            text = line.decode()
        except UnicodeDecodeError:
            continue
        value = object_of(text)
        if not isinstance(value, str):
            _look(text, value, root)


def _look(text: str, value: Value, seen: Seen, depth: int = 0) -> None:
    if depth > DEEPEST and value.kind in ("object", "array"):
        seen.simple.add(types.StringType())
    elif value.kind == "object":
        seen.fields = seen.fields or {}
        for key, _, inner in value.content:
            if is_text(key):
                _look(text, inner, seen.at(key), depth + 1)
    elif value.kind == "array":
        for inner in value.content:
            _look(text, inner, seen.inside(), depth + 1)
        seen.inside()
    elif value.kind in ("true", "false"):
        seen.simple.add(types.BooleanType())
    elif value.kind == "number":
        seen.simple.add(_number(text[value.start : value.end]))
    elif value.kind == "string" and value.content:
        # An empty string says nothing of its column's type, to Spark.
        seen.simple.add(types.StringType())


def _number(written: str) -> types.DataType:
    digits = written.lstrip("-")
    if not digits.isdigit():
        return types.StringType() if is_rounded(written) else types.DoubleType()
    if len(digits) > MOST_DIGITS:
        return types.StringType() if is_rounded(written) else types.DoubleType()
    if -LARGEST <= int(written) < LARGEST:
        return types.LongType()
    return types.DecimalType(len(digits), 0)


def _by_arrow(block: bytes, root: Seen) -> bool:
    """Add what a block's records are; say false, and add nothing, where that takes a look at each."""
    records = objects_on_lines(block)
    if not records or rounded(block) or ends_arrow(block):
        return False
    try:
        read = pa.json.read_json(pa.BufferReader(block))
        read.validate(full=True)
        if read.num_rows != records:
            return False
        looks = Seen()
        _look_at_columns(zip(read.column_names, read.columns, strict=True), looks)
    except (pa.ArrowException, ValueError, Unclear):
        return False
    _merge(looks, root)
    return True


def _look_at_columns(columns: Any, seen: Seen) -> None:
    seen.fields = seen.fields or {}
    for name, values in columns:
        _look_at_values(values, seen.at(name))


def _look_at_values(values: Any, seen: Seen) -> None:
    kind = values.type
    if pa.types.is_struct(kind):
        _look_at_columns(((f.name, pc.struct_field(values, [n])) for n, f in enumerate(kind)), seen)
    elif pa.types.is_list(kind):
        _look_at_values(pc.list_flatten(values), seen.inside())
    elif pa.types.is_floating(kind):
        largest = pc.max(pc.abs(values)).as_py()
        if largest is not None and not largest < EXACT:
            raise Unclear
        seen.simple.add(types.DoubleType())
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        seen.simple.add(types.BooleanType() if pa.types.is_boolean(kind) else types.LongType())
    elif pa.types.is_string(kind):
        if pc.max(pc.binary_length(values)).as_py():
            seen.simple.add(types.StringType())
    elif pa.types.is_temporal(kind):
        # What looks like a time is a string to Spark.
        seen.simple.add(types.StringType())
    elif not pa.types.is_null(kind):
        raise Unclear


def _merge(looks: Seen, into: Seen) -> None:
    into.simple |= looks.simple
    if looks.fields is not None:
        into.fields = into.fields or {}
        for key, seen in looks.fields.items():
            _merge(seen, into.at(key))
    if looks.element is not None:
        _merge(looks.element, into.inside())
