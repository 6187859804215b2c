"""The layout of a new Delta table: generated columns, clustering, properties, constraints."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlglot
from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from sqlglot.errors import SqlglotError

from medallion_assets.declare.errors import SchemaRefused
from medallion_assets.delta import log
from medallion_assets.delta.comments import commented, comments_of
from medallion_assets.delta.names import literal, quoted
from medallion_assets.sources.schema_versions import takes_columns


@dataclass(frozen=True)
class Layout:
    """The layout of a declared Delta table.

    Attributes:
        schema: The columns the table has, as DDL; empty leaves them to the query. ``COMMENT`` of a column is
            Delta's comment of it.
        constraints: By name, SQL that every row in the table satisfies; checked by Delta on each write,
            after the rules have moved what they refuse.
        generated: By name, ``TYPE AS (expression)``: columns Delta computes from others.
        cluster_by: Columns rows are kept together by.
        properties: Delta table properties.
        comment: Delta's comment of the table.
        column_comments: By name, Delta's comments of columns, those in a landing zone's ``schema`` too.
    """

    schema: str = ""
    constraints: Mapping[str, str] = field(default_factory=dict, hash=False)
    generated: Mapping[str, str] = field(default_factory=dict, hash=False)
    cluster_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    comment: str = ""
    column_comments: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def is_asked_for(self) -> bool:
        """Return true where the table must be created before the first write and keeps its columns."""
        settings = self.constraints or self.generated or self.cluster_by or self.properties
        return bool(settings or self.comments)

    @property
    def comments(self) -> dict[str, str]:
        """Comments of columns, from the schema and from ``column_comments``, which win."""
        return comments_of(self.schema) | dict(self.column_comments)

    def problems(self) -> list[str]:
        """Return the parse errors of the schema and the constraints."""
        statements = [f"CREATE TABLE t ({self.schema})"] if self.schema else []
        statements += [f"SELECT 1 WHERE {rule}" for rule in self.constraints.values()]
        return [p for text in statements if (p := _unread(text))]


def fitted(rows: DataFrame, layout: Layout, key: str) -> DataFrame:
    """Return the rows with the declared columns in their order.

    Raises:
        SchemaRefused: A column is missing, is not declared, or has another type.
    """
    if not layout.schema:
        return rows
    declared: Any = StructType.fromDDL(layout.schema)
    partial = [c for c in rows.columns if c.startswith("_partial_")]
    found = {f.name: f.dataType.simpleString() for f in rows.schema.fields if f.name not in partial}
    wanted = {f.name: f.dataType.simpleString() for f in declared.fields}
    if found != wanted:
        differ = sorted({*found.items()} ^ {*wanted.items()})
        raise SchemaRefused(key, [f"{name} {kind}" for name, kind in differ])
    return rows.select(*(quoted(name) for name in [*wanted, *partial]))


def laid_out(rows: DataFrame, layout: Layout, path: Path, key: str) -> DataFrame:
    """Return the rows as the layout declares them, and makes the table it asks for where there is none.

    Raises:
        SchemaRefused: The rows have other columns than the layout's schema.
    """
    fit = commented(fitted(rows, layout, key), path, layout.comments)
    if layout.is_asked_for or layout.comment:
        _made_ready(fit, layout, path)
    takes_columns(rows.sparkSession, path, rows.schema)
    return fit


def _made_ready(rows: DataFrame, layout: Layout, path: Path) -> None:
    if not log.exists(path):
        _create(rows, layout, path)
    spark, held = rows.sparkSession, log.properties(path)
    name = f"delta.`{path}`"
    for key, value in layout.properties.items():
        if held.get(key) != value:
            spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{key}' = '{value}')")
    for key, rule in layout.constraints.items():
        if f"delta.constraints.{key}" not in held:
            spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT {key} CHECK ({rule})")
    if layout.comment and layout.comment != log.opened(path).metadata().description:
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('comment' = {literal(layout.comment)})")


def _create(rows: DataFrame, layout: Layout, path: Path) -> None:
    table = DeltaTable.createIfNotExists(rows.sparkSession).location(str(path)).addColumns(rows.schema)
    for name, definition in layout.generated.items():
        kind, _, expression = definition.partition(" AS ")
        table = table.addColumn(name, kind.strip(), generatedAlwaysAs=expression.strip()[1:-1])
    if layout.comment:
        table = table.comment(layout.comment)
    if layout.cluster_by:
        table = table.clusterBy(*layout.cluster_by)
    for key, value in layout.properties.items():
        table = table.property(key, value)
    table.execute()


def _unread(text: str) -> str:
    try:
        sqlglot.parse_one(text, dialect="spark")
    except SqlglotError as error:
        return f"{text!r} does not parse: {error}"
    return ""
