"""Comments of columns: read from DDL, written to Delta with the first rows or when they change."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlglot
from pyspark.sql import DataFrame
from sqlglot import exp
from sqlglot.errors import SqlglotError

from medallion_assets.delta import log
from medallion_assets.delta.names import literal, quoted

COMMENT = "comment"
"""In the metadata of a Spark column: what Delta takes for its comment when the column is new."""


def comments_of(columns: str) -> dict[str, str]:
    """Return the comments in a list of columns as DDL, by column; none of a text that cannot be read."""
    if COMMENT not in columns.lower():
        return {}
    try:
        table: Any = sqlglot.parse_one(f"CREATE TABLE t ({columns})", dialect="spark").this
    except SqlglotError:
        return {}
    kinds = ((column.name, part.kind) for column in table.expressions for part in column.args["constraints"])
    return {name: kind.this.name for name, kind in kinds if isinstance(kind, exp.CommentColumnConstraint)}


def commented(rows: DataFrame, path: Path, comments: Mapping[str, str]) -> DataFrame:
    """Return rows with the comments in their columns' metadata; change those of an existing table."""
    there = {f.name.lower(): f for f in log.spark_schema(path).fields} if log.exists(path) else {}
    by_name = {name.lower(): comment for name, comment in comments.items()}
    for name in (column for column in rows.columns if column.lower() in by_name):
        comment, held = by_name[name.lower()], there.get(name.lower())
        if held is not None and held.metadata.get(COMMENT) != comment:
            change = f"ALTER COLUMN {quoted(held.name)} COMMENT {literal(comment)}"
            rows.sparkSession.sql(f"ALTER TABLE delta.{quoted(str(path))} {change}")
        rows = rows.withMetadata(name, {COMMENT: comment})
    return rows
