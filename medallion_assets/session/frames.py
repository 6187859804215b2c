"""Small frames: of rows that Python holds, and of rows that were computed once and are values since."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DateType, StructType, TimestampNTZType, TimestampType

from medallion_assets.session.cluster import is_cluster


def frame_of(spark: SparkSession, rows: Iterable[Sequence[object]], columns: str | StructType) -> DataFrame:
    """Return the rows as a frame.

    As Arrow: rows handed over one by one go through a Python worker, which took 3.5 s in a new process
    and 0.4 s in a warm one, where this takes 0.6 and 0.05.

    Args:
        spark: The session.
        rows: Each a sequence of as many values as there are columns.
        columns: Their names and types, or as SQL declares them, ``name STRING, age INT``.
    """
    declared = StructType.fromDDL(columns) if isinstance(columns, str) else columns
    assert isinstance(declared, StructType)
    schema = to_arrow_schema(declared, timezone="UTC")
    values = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return frame_of_table(spark, pa.Table.from_arrays(arrays, schema=schema))


def frame_of_table(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return an Arrow table as a frame."""
    return spark.createDataFrame(table)


FEW_ROWS = 10_000
FEW_BYTES = 4 << 20
"""Limits for rows computed into memory; the log's statistics give the bytes of their Parquet files."""

PARTITIONS_FIRST = "spark.sql.limit.initialNumPartitions"


def computed(frame: DataFrame) -> DataFrame | None:
    """Return the frame's rows as values, computed in one job; None where they are more than ``FEW_ROWS``.

    What only selects or filters values is computed with the plan: it starts no job (``is_local``).
    """
    spark = frame.sparkSession
    before = spark.conf.get(PARTITIONS_FIRST, None)
    # A limit would look at one partition first, at some more in a second job, and so on.
    spark.conf.set(PARTITIONS_FIRST, str(FEW_ROWS))
    try:
        rows = frame._jdf.queryExecution().executedPlan().executeTake(FEW_ROWS + 1)
    finally:
        spark.conf.unset(PARTITIONS_FIRST) if before is None else spark.conf.set(PARTITIONS_FIRST, before)
    return None if len(rows) > FEW_ROWS else _of_rows(rows, frame)


def persisted(frame: DataFrame) -> DataFrame:
    """Return the frame, kept once it is computed; on a cluster by two executors.

    What a lost executor alone had kept would be computed again, and a query with ``rand()`` or a tie in its
    order would give other rows than those that were counted.
    """
    return frame.persist(_storage(frame))


def cut_off(frame: DataFrame) -> DataFrame:
    """Return the frame's rows as computed now, without their plan; on a cluster two executors keep them."""
    return frame.localCheckpoint(storageLevel=_storage(frame))


def _storage(frame: DataFrame) -> StorageLevel:
    on_two = StorageLevel(True, True, False, True, 2)
    return on_two if is_cluster(frame.sparkSession) else StorageLevel.MEMORY_AND_DISK_DESER


def broadcast_if_few(frame: DataFrame) -> DataFrame:
    """Return the smaller side of a join: few rows as values for every executor, many as they are."""
    values = computed(frame)
    return frame if values is None else F.broadcast(values)


def computed_whole(frame: DataFrame) -> DataFrame:
    """Return all of a frame's rows as values; state that computing them leaves behind is whole, too."""
    return _of_rows(frame._jdf.queryExecution().executedPlan().executeCollect(), frame)


def _of_rows(rows: Any, frame: DataFrame) -> DataFrame:
    jvm: Any = frame.sparkSession._jvm
    data = jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(rows)
    output = frame._jdf.queryExecution().analyzed().output()
    plans = jvm.org.apache.spark.sql.catalyst.plans.logical
    relation = plans.LocalRelation(output, data, False, jvm.scala.Option.apply(None))
    return of_plan(relation, frame.sparkSession)


def copied(values: DataFrame, spark: SparkSession) -> DataFrame:
    """Return a session's frame of the same values, whose columns are others: both can be joined."""
    return of_plan(values._jdf.queryExecution().analyzed().newInstance(), spark)


def is_local(frame: DataFrame) -> bool:
    """Return true where a frame's rows are values already: to collect them starts no job."""
    query = frame._jdf.queryExecution()
    leaves = query.analyzed().collectLeaves()
    # Any other frame is not to be optimized twice: that lists the files of its tables.
    if {leaves.apply(at).nodeName() for at in range(leaves.size())} != {"LocalRelation"}:
        return False
    return bool(query.optimizedPlan().nodeName() == "LocalRelation")


ROW_BY_ROW = {"Project", "Filter", "Union", "LogicalRelation", "InMemoryRelation", "LocalRelation", "Range"}

TIME_WORDS = re.compile(r"\b(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
MOST_FIELDS = 1 << 30


def is_row_by_row(frame: DataFrame) -> bool:
    """Return true where a frame is made of files row by row, without Python, alike whenever it is computed.

    To compute such a frame twice costs less than to keep it: a cache takes as long as the write of a table.
    """
    query, jvm = frame._jdf.queryExecution(), frame.sparkSession._jvm
    trees: Any = jvm.org.apache.spark.sql.catalyst.trees  # type: ignore[union-attr]
    patterns, asked = getattr(getattr(trees, "TreePattern$"), "MODULE$"), query.analyzed()
    # Each execution has a current time of its own, though Spark calls it deterministic; and a subquery's
    # first row may be any row.
    varies = asked.containsPattern(patterns.CURRENT_LIKE()) or asked.containsPattern(
        patterns.PLAN_EXPRESSION()
    )
    plan = query.optimizedPlan()
    if varies or not plan.deterministic() or not _nodes(plan) <= ROW_BY_ROW:
        return False
    # As text, since Spark knows the time that a cast of such a word gives only once it is optimized.
    return not TIME_WORDS.search(asked.treeString(True, False, MOST_FIELDS, False, False))


def _nodes(plan: Any) -> set[str]:
    return {plan.nodeName()}.union(*map(_nodes, each(plan.children())))


def arrow_of(values: DataFrame) -> pa.Table:
    """Return values (``is_local``) as an Arrow table, by Spark's own conversion."""
    plan, jvm = values._jdf.queryExecution().optimizedPlan(), values.sparkSession._jvm
    arrow: Any = jvm.org.apache.spark.sql.execution.arrow  # type: ignore[union-attr]
    batches = getattr(getattr(arrow, "ArrowConverters$"), "MODULE$").toBatchWithSchemaIterator(
        plan.data().iterator(), values._jdf.schema(), FEW_ROWS + 1, 1 << 40, "UTC", True, False
    )
    if not batches.hasNext():
        return to_arrow_schema(values.schema, timezone="UTC").empty_table()
    return pa.ipc.open_stream(bytes(batches.next())).read_all()


def printed(rows: DataFrame) -> DataFrame:
    """Return rows for a person to read, with their dates and times as text in the session's zone.

    Python's own have the zone of the machine, and end at the year 9999.
    """
    # By their place: a query's columns may have one name twice.
    by_place = rows.toDF(*(f"c{place}" for place in range(len(rows.columns))))
    times = (DateType, TimestampType, TimestampNTZType)
    shown = []
    for field, column in zip(rows.schema, map(F.col, by_place.columns), strict=True):
        shown.append(
            (column.cast("string") if isinstance(field.dataType, times) else column).alias(field.name)
        )
    return by_place.select(*shown)


def each(sequence: Any) -> Iterator[Any]:
    """Return the items of a Scala sequence."""
    return (sequence.apply(i) for i in range(sequence.size()))


def seq(items: Sequence[Any], spark: SparkSession) -> Any:
    """Return items as a Scala sequence."""
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.api.python.PythonUtils.toSeq(items)


def of_plan(plan: Any, spark: SparkSession) -> DataFrame:
    """Return the frame of an analyzed plan."""
    jvm: Any = spark._jvm
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)
