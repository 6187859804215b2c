"""Move rescued fields of a table's rows into columns that were added to the table later."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
from pyspark.sql.types import BooleanType, DataType, StringType, StructField, StructType

from medallion_assets.delta.commit import Transaction, signed
from medallion_assets.delta.names import quoted
from medallion_assets.sources.formats.csv_rows import text_options
from medallion_assets.sources.formats.exact_values import NotExact, exact_value
from medallion_assets.sources.formats.json_scan import Value, scan
from medallion_assets.sources.formats.json_values import TIMES, exact_json, reads, stored_type
from medallion_assets.sources.formats.xml import as_typed_xml, in_xml
from medallion_assets.sources.load_target import PROVENANCE
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import named_as, own_members

OURS = (*PROVENANCE, "_ingested_at", "_batch_id")


def unrescue(
    spark: SparkSession,
    path: Path,
    source: Source,
    files: Sequence[str],
    transaction: Transaction,
    dry_run: bool,
) -> int:
    """Fill columns that are NULL from their row's rescued data where the value fits; return how many rows.

    A moved field is removed from the rescued data, whose other fields keep their text; a row without other
    rescued fields gets NULL there. A field that occurs twice in a row stays rescued.

    Args:
        spark: The session.
        path: The table.
        source: What it is loaded from, with a rescued data column.
        files: Ends of the paths of the landing files concerned; all where there are none.
        transaction: Who writes.
        dry_run: Only count.
    """
    table = DeltaTable.forPath(spark, str(path))
    rescued = F.col(quoted(source.rescued))
    columns = [f for f in table.toDF().schema.fields if f.name not in (*OURS, source.rescued)]
    # A type that no reader takes has nothing moved into it.
    fields = [field for field in columns if reads(field.dataType)]
    empty = F.concat_ws("", *(F.col(quoted(f.name)).isNull().cast("tinyint").cast("string") for f in fields))
    moved = _moves(fields, source)(rescued, empty)
    chosen = rescued.isNotNull() & moved["moved"]
    if files:
        chosen = chosen & F.greatest(
            F.lit(False), *(F.expr(named_as("_source_file", name)) for name in files)
        )
    rows = table.toDF().where(chosen).count()
    if rows and not dry_run:
        sets = {
            quoted(field.name): F.coalesce(F.col(quoted(field.name)), moved[f"c{place}"])
            for place, field in enumerate(fields)
        }
        with signed(spark, path, transaction):
            table.update(chosen, {**sets, quoted(source.rescued): moved["left"]})
    return rows


def _moves(fields: Sequence[StructField], source: Source) -> Callable[[Column, Column], Column]:
    """Return a Spark function that moves values from rescued data to columns.

    Its arguments are the rescued data, and a text with ``1`` for each column that is NULL and ``0`` for each
    other. It gives ``moved`` BOOLEAN, ``left`` STRING (what stays rescued) and ``c0``, ``c1`` ... (values).
    """
    values = [StructField(f"c{place}", field.dataType) for place, field in enumerate(fields)]
    shape = StructType([StructField("moved", BooleanType()), StructField("left", StringType()), *values])
    stored = [pa.bool_(), pa.string(), *(stored_type(field.dataType) for field in fields)]
    of_xml = source.format == "xml"
    kinds = {f.name: in_xml(f.dataType, source) if of_xml else f.dataType for f in fields}

    def move(texts: pa.Array, empties: pa.Array) -> pa.Array:
        rows: list[list[Any]] = []
        for text, empty in zip(texts.to_pylist(), empties.to_pylist(), strict=True):
            free = {
                name: kind for (name, kind), mark in zip(kinds.items(), empty, strict=True) if mark == "1"
            }
            taken, left = _taken(text or "{}", free, source)
            rows.append([bool(taken), left, *(taken.get(field.name) for field in fields)])
        columns = list(zip(*rows, strict=True)) or [()] * len(stored)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, stored, strict=True)]
        return pa.StructArray.from_arrays(arrays, shape.names)

    return arrow_udf(move, shape)  # type: ignore[no-any-return]


def _taken(text: str, kinds: Mapping[str, DataType], source: Source) -> tuple[dict[str, Any], str | None]:
    """Return the values for columns in rescued data, by column name, and the remaining rescued data."""
    every = scan(text).content
    members = own_members(every)
    times = Counter(key for key, _, _ in members)
    values: dict[str, Any] = {}
    left = []
    for key, start, value in members:
        found = None
        if key in kinds and times[key] == 1:
            found = _value(text[value.start : value.end], value, kinds[key], source)
        # A null is what the empty column says.
        if found is not None or (key in kinds and times[key] == 1 and value.kind == "null"):
            values[key] = found
        else:
            left.append(text[start : value.end])
    of_file = [text[start : value.end] for _, start, value in every[len(members) :]]
    return values, "{" + ",".join([*left, *of_file]) + "}" if left else None


def _value(text: str, value: Value, kind: DataType, source: Source) -> Any:
    """Return a rescued value in a type, None where the type cannot hold it exactly.

    A string is read as a JSON string first, and then as a CSV cell; XML's as typed columns of XML are.
    """
    try:
        return exact_json(as_typed_xml(text) if source.format == "xml" else text, kind)
    except NotExact:
        pass
    if value.kind != "string" or (source.format == "xml" and not isinstance(kind, TIMES)):
        return None
    try:
        return exact_value(str(value.content), kind, text_options(source))
    except NotExact:
        return None
