"""Apply a table's query to upstream's rows, with its static inputs in fixed versions."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.errors import RepeatedKeys, SourceRowLost
from medallion_assets.declare.table import SOURCE_ROW, Read, Table
from medallion_assets.delta import working
from medallion_assets.delta.names import quoted
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import at_version, values_of
from medallion_assets.quarantine.entries import identity_of
from medallion_assets.quarantine.repairs import as_text, mended, text_columns
from medallion_assets.session.frames import each, of_plan, seq

NAMED = 5
"""The number of repeated keys in a message."""

STATIC_KEY = "medallion.static_key"
"""Metadata key of a static input's key column, which marks conditions on it in Spark's plan."""


def derived(
    rows: DataFrame,
    table: Table,
    lake: Lake,
    static_versions: Mapping[str, int],
    repairs: DataFrame | None = None,
) -> DataFrame:
    """Return the query's rows; for a static input with a rule, ``_check_<input>_matched`` BOOLEAN besides.

    With ``rows_out="many"``, ``_check_source_row`` STRING identifies the upstream row: a hash of its text.
    Upstream rows with equal text share the hash, and the query gives the same rows for each.

    Args:
        rows: Upstream's columns.
        table: The table.
        lake: Where its inputs are.
        static_versions: The version of each static input.
        repairs: The repaired rows that replace refused ones (``repairs.in_force``).

    Raises:
        RepeatedKeys: A static input has several rows for a key of ``unique_by``, with ``repeated="fail"``.
        SourceRowLost: A query with ``rows_out="many"`` drops ``_check_source_row``.
    """
    spark = rows.sparkSession
    source = rows.withColumn(SOURCE_ROW, F.md5(as_text(rows))) if table.rows_out == "many" else rows

    def made_of(static_rows: Callable[[SparkSession, Path, int], DataFrame]) -> DataFrame:
        frames = {}
        for name, read in table.reads:
            if read.how == "static" and read.table and not read.asked_by:
                whole = static_rows(spark, lake.path(read.table), static_versions[name])
                whole = _unique(whole, read, table)
                frames[name] = _knowing_all(whole, rows, read) if read.unmatched else whole
        return table(**{table.streamed: source}, **frames)

    try:
        made = made_of(values_of)
    except AnalysisException:
        # Values have no file: a query may ask for the one a row is in.
        made = made_of(at_version)
    if any(read.unmatched for _, read in table.reads):
        made = _null_keys_met(made)
    rows = source
    if table.rows_out == "many" and SOURCE_ROW not in made.columns:
        raise SourceRowLost(table.key, SOURCE_ROW)
    made = mended(made, repairs, identity_of(text_columns(made), rows.columns, table.recomputed_by))
    return with_matches_marked(made, table, lake, static_versions, spark)


def with_matches_marked(
    made: DataFrame, table: Table, lake: Lake, static_versions: Mapping[str, int], spark: SparkSession
) -> DataFrame:
    """Return rows with ``_check_<input>_matched`` BOOLEAN for each static input with a rule."""
    for name, read in table.reads:
        if read.unmatched:
            made = _marked(made, name, read, spark, lake, static_versions)
    return made


def _unique(whole: DataFrame, read: Read, table: Table) -> DataFrame:
    """Return the static rows, each key once where the read says what names one."""
    if not read.unique_by or read.table is None:
        return whole
    if read.repeated == "keep_one":
        return _last_landed(whole, read.unique_by)
    twice = whole.groupBy(*read.unique_by).count().where("count > 1").limit(NAMED).collect()
    if twice:
        raise RepeatedKeys(table.key, read.table.key, read.unique_by, [tuple(r)[:-1] for r in twice])
    return whole


def _last_landed(whole: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    landed = [F.col(c).desc() for c in ("_source_modified_at", "_batch_id") if c in whole.columns]
    # The row's hash breaks ties in the same way in every replay.
    order = [*landed, F.xxhash64(*(F.col(quoted(c)) for c in whole.columns))]
    turn = F.row_number().over(Window.partitionBy(*keys).orderBy(*order))
    return whole.withColumn(working.TURN, turn).where(f"{working.TURN} = 1").drop(working.TURN)


def _knowing_all(whole: DataFrame, rows: DataFrame, read: Read) -> DataFrame:
    """Add the keys the static rows lack, with NULL for all else, so that no join loses a row.

    Static rows with NULL in the key are removed, so that a NULL key is always among the added ones.
    """
    wanted = rows.select(*read.on).distinct()
    whole = whole.where(" AND ".join(f"{quoted(c)} IS NOT NULL" for c in read.on))
    lacking = wanted.join(whole.select(*read.on).distinct(), list(read.on), "left_anti")
    known = whole.unionByName(lacking, allowMissingColumns=True)
    for column in read.on:
        known = known.withMetadata(column, {STATIC_KEY: True})
    return known


def _null_keys_met(made: DataFrame) -> DataFrame:
    """Return the query's rows with ``<=>`` for ``=`` on a static key: NULL joins the row added for it."""
    plan = made._jdf.queryExecution().analyzed()
    met = _null_safe(plan, made.sparkSession)
    made = made if met is plan else of_plan(met, made.sparkSession)
    for field in made.schema.fields:
        if STATIC_KEY in field.metadata:
            others = {k: v for k, v in field.metadata.items() if k != STATIC_KEY}
            made = made.withMetadata(field.name, others)
    return made


def _null_safe(plan: Any, spark: SparkSession) -> Any:
    """Return a plan whose joins and filters compare static keys null-safely; the same one where none does."""
    jvm: Any = spark._jvm
    old, plans = [*each(plan.children())], jvm.org.apache.spark.sql.catalyst.plans.logical
    new = [_null_safe(child, spark) for child in old]
    if any(a is not b for a, b in zip(old, new, strict=True)):
        plan = plan.withNewChildren(seq(new, spark))
    if plan.nodeName() == "Join" and plan.condition().isDefined():
        condition = plan.condition().get()
        met = _met(condition, jvm)
        if met is not condition:
            some = jvm.scala.Option.apply(met)
            return plans.Join(plan.left(), plan.right(), plan.joinType(), some, plan.hint())
    elif plan.nodeName() == "Filter":
        condition = plan.condition()
        met = _met(condition, jvm)
        return plan if met is condition else plans.Filter(met, plan.child())
    return plan


def _met(condition: Any, jvm: Any) -> Any:
    name, expressions = condition.nodeName(), jvm.org.apache.spark.sql.catalyst.expressions
    if name == "And":
        old = condition.left(), condition.right()
        new = [_met(side, jvm) for side in old]
        return condition if new[0] is old[0] and new[1] is old[1] else expressions.And(*new)
    if name == "EqualTo" and any(
        a.metadata().contains(STATIC_KEY) for a in each(condition.references().toSeq())
    ):
        return expressions.EqualNullSafe(condition.left(), condition.right())
    return condition


def _marked(
    made: DataFrame,
    name: str,
    read: Read,
    spark: SparkSession,
    lake: Lake,
    static_versions: Mapping[str, int],
) -> DataFrame:
    assert read.table is not None
    known = values_of(spark, lake.path(read.table), static_versions[name]).select(*read.on).distinct()
    marked = made.join(known.withColumn(working.KNOWN, F.lit(True)), list(read.on), "left")
    found = F.col(working.KNOWN).isNotNull().alias(f"_check_{name}_matched")
    return marked.select(*(F.col(quoted(c)) for c in made.columns), found)
