"""What a table's query makes of upstream's rows, with its static inputs as they are pinned."""

from collections.abc import Callable, Mapping
from pathlib import Path

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

NAMED = 5
"""Repeated keys named in a message: enough to find them."""


def derived(
    rows: DataFrame,
    table: Table,
    lake: Lake,
    static_versions: Mapping[str, int],
    repairs: DataFrame | None = None,
) -> DataFrame:
    """Return the query's rows; for a static input with a rule, ``_check_<input>_matched`` BOOLEAN besides.

    Where one upstream row may give many, ``_check_source_row`` STRING says which: a hash of its text, so
    that rows of the same text, of which the query gives the same, share it.

    Args:
        rows: Upstream's columns.
        table: The table.
        lake: Where its inputs are.
        static_versions: The version of each static input.
        repairs: What stands in for rows that were refused and mended (``repairs.in_force``).

    Raises:
        RepeatedKeys: A static input names several rows by its ``unique_by``, and says ``fail``.
        SourceRowLost: A query that may give many rows for one drops the column that says which.
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
    rows = source
    if table.rows_out == "many" and SOURCE_ROW not in made.columns:
        raise SourceRowLost(table.key, SOURCE_ROW)
    made = mended(made, repairs, identity_of(text_columns(made), rows.columns, table.recomputed_by))
    return with_matches_told(made, table, lake, static_versions, spark)


def with_matches_told(
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
    # The row's own hash ends every tie the same way in every replay.
    order = [*landed, F.xxhash64(*(F.col(quoted(c)) for c in whole.columns))]
    turn = F.row_number().over(Window.partitionBy(*keys).orderBy(*order))
    return whole.withColumn(working.TURN, turn).where(f"{working.TURN} = 1").drop(working.TURN)


def _knowing_all(whole: DataFrame, rows: DataFrame, read: Read) -> DataFrame:
    """Add the keys the static rows lack, with NULL for all else, so that no join loses a row."""
    wanted = rows.select(*read.on).distinct()
    lacking = wanted.join(whole.select(*read.on).distinct(), list(read.on), "left_anti")
    return whole.unionByName(lacking, allowMissingColumns=True)


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
