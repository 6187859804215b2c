"""Which quarantine entry a recomputed row is, also where what it was joined with or loaded by has changed."""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.delta import working
from medallion_assets.sources.quarantine import AS_JSON, FROM_JSON

TEXT = working.TEXT
ROW_ID = working.ROW_ID
BY_KEY = 2
RELOADED = ("_batch_id", "_ingested_at", "_source_modified_at")
"""What the rows of a file get anew when it is loaded again."""


class Identity(NamedTuple):
    """The columns by which a row that was refused is known again, besides its whole text.

    Attributes:
        lasting: What the query gives under names upstream has, and the keys: a changed static row or a file
            loaded again leaves them as they were. Empty where that would be the keys alone.
        keys: The columns by which the table is recomputed; none where rows have no key.
    """

    lasting: tuple[str, ...]
    keys: tuple[str, ...]


def identity_of(columns: Iterable[str], upstream: Iterable[str], keys: Sequence[str]) -> Identity:
    """Return how rows of these columns, made of upstream rows, are known again."""
    columns, stays = list(columns), {*keys, *upstream} - {*RELOADED}
    lasting = tuple(c for c in columns if c in stays)
    return Identity(lasting if {*lasting} - {*keys} else (), tuple(c for c in columns if c in keys))


def paired(rows: DataFrame, entries: DataFrame, schema: StructType, known_by: Identity) -> DataFrame:
    """Return which entry each row is: one of its text, else of its lasting columns, else of its key.

    Each entry is at most one row's, and each row at most one entry's. Both frames are read several times:
    they are small, and cut off from what they were made of.

    Args:
        rows: ``working.ROW_ID`` and ``working.TEXT`` STRING.
        entries: ``entry_id``, ``row`` STRING, ``by_key`` BOOLEAN: its key alone may say which row it is.
        schema: Of the rows the texts are.
        known_by: ``identity_of``.

    Returns:
        ``ROW_ID``, ``entry_id``, ``working.LEVEL`` INT (0 of the same text, 1 of the same lasting columns,
        2 of the same key).
    """
    left, right = rows.select(ROW_ID, TEXT), entries.select("entry_id", F.col("row").alias(TEXT), "by_key")
    pairs: list[DataFrame] = []
    for level, columns in enumerate(((), *known_by)):
        if level and not columns:
            continue
        asked = right.where("by_key") if level == BY_KEY else right
        known = _numbered(asked, columns, schema, "entry_id").drop(TEXT)
        found = _numbered(left, columns, schema, ROW_ID).join(known, [working.IDENTITY, working.NTH])
        pairs.append(found.select(ROW_ID, "entry_id", F.lit(level).alias(working.LEVEL)).localCheckpoint())
        left = left.join(pairs[-1].select(ROW_ID), ROW_ID, "left_anti")
        right = right.join(pairs[-1].select("entry_id"), "entry_id", "left_anti").localCheckpoint()
        if right.isEmpty():
            break
    return reduce(DataFrame.unionByName, pairs)


def _numbered(rows: DataFrame, columns: Sequence[str], schema: StructType, name: str) -> DataFrame:
    """Return rows with ``working.IDENTITY`` STRING, and ``working.NTH`` INT among those of one identity."""
    row = F.from_json(TEXT, schema, FROM_JSON)
    known = F.to_json(F.struct(*(row[c].alias(c) for c in columns)), AS_JSON) if columns else F.col(TEXT)
    told = rows.withColumn(working.IDENTITY, known)
    turn = Window.partitionBy(working.IDENTITY).orderBy(TEXT, name)
    return told.withColumn(working.NTH, F.row_number().over(turn))
