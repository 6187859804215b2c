"""Cells of text as typed columns: a value that does not fit is rescued or refused with its text."""

import json

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from medallion_assets.delta.names import quoted
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import NO_FIT
from medallion_assets.sources.rescue import as_json, rescued_from_cells


def columns_of(frame: DataFrame, names: list[str], source: Source, schema: StructType) -> DataFrame:
    """Return the schema's columns of records cut into cells; the frame's columns are those of ``reading``.

    Args:
        frame: ``_row`` STRUCT of STRING cells, ``_unknown`` ARRAY<STRUCT<key, value>> of the others,
            ``_text`` STRING the record, ``_problem`` STRING what is wrong with it, and where it came from.
        names: The cells there are.
        source: How it is read.
        schema: The columns wanted.
    """
    null = source.option("nullValue", default="")
    here = [field for field in schema.fields if field.name in names]
    cells = {f.name: _cell(f.name, null) for f in here if null or not isinstance(f.dataType, StringType)}
    typed = [_column(f, f.name in names, cells.get(f.name), source) for f in schema.fields]
    misfit = {f.name: (cells[f.name] != "") & _cast(cells[f.name], f.dataType, source).isNull()
              for f in here if not isinstance(f.dataType, StringType)}  # fmt: skip
    reason = _reason(misfit) if misfit and not source.rescues_values else F.col("_problem")
    return frame.select(
        *typed,
        *_rescued(cells, misfit, reason, source),
        F.when(reason.isNotNull(), F.col("_text")).alias("_raw"),
        reason.alias("_reason"),
        "_source_file",
        "_source_modified_at",
    )


def _reason(misfit: dict[str, Column]) -> Column:
    which = F.concat_ws(", ", *(F.when(bad, F.lit(name)) for name, bad in misfit.items()))
    return F.coalesce("_problem", F.when(which != "", F.concat(F.lit(f"{NO_FIT}: "), which)))


def _rescued(
    cells: dict[str, Column], misfit: dict[str, Column], reason: Column, source: Source
) -> list[Column]:
    if not source.rescued:
        return []
    texts = [
        F.when(bad, F.concat(F.lit(json.dumps(n) + ":"), as_json(cells[n]))) for n, bad in misfit.items()
    ]
    found = rescued_from_cells(F.col("_unknown"), texts, F.col("_source_file"))
    return [F.when(reason.isNull(), found).alias(source.rescued)]


def _cell(name: str, null: str) -> Column:
    cell = F.col(f"_row.{quoted(name)}")
    return F.nullif(cell, F.lit(null)) if null else cell


def _column(field: StructField, there: bool, cell: Column | None, source: Source) -> Column | str:
    if there and cell is None:
        return f"_row.{quoted(field.name)}"
    return _cast(cell, field.dataType, source).alias(field.name)


def _cast(cell: Column | None, wanted: DataType, source: Source) -> Column:
    if cell is None or isinstance(wanted, StringType):
        return F.lit(None).cast(wanted) if cell is None else cell
    if isinstance(wanted, (StructType, ArrayType, MapType)):
        return F.from_json(cell, wanted)  # type: ignore[arg-type]
    text = F.trim(cell)
    form = source.option("dateFormat" if isinstance(wanted, DateType) else "timestampFormat", default="")
    if form and isinstance(wanted, (DateType, TimestampType)):
        return F.try_to_timestamp(text, F.lit(form)).cast(wanted)
    return text.try_cast(wanted)
