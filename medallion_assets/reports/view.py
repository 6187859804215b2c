"""What a watch shows: new rows, or what a query makes of them, printed or kept in a view in memory."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from medallion_assets.declare.errors import DeclarationError
from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import newest
from medallion_assets.delta.changes import ALL_FILES, CHANGE_TYPE
from medallion_assets.delta.stream import Calls, guarded
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import position
from medallion_assets.operations.requests import many
from medallion_assets.reports import show
from medallion_assets.session.frames import printed

COUNTED = "medallion_watch"
ViewQuery = Callable[[DataFrame], DataFrame]
"""What a person asks of a table's rows: takes them as a streaming frame."""


@dataclass
class Watched:
    """What a watch has shown so far.

    Attributes:
        table: Its name, and ``path`` where it lies.
        batches: Micro-batches with rows, and ``rows`` in all of them.
        rows_per_second: Of the last one.
        version: The table's version up to which its rows are shown, None before the first commit.
        backlog: Commits of the table that are not shown yet.
        query: Spark's query, None before the table has a commit.
    """

    table: str
    path: Path
    batches: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    version: int | None = None
    backlog: int = 0
    query: StreamingQuery | None = field(default=None, repr=False)

    def stop(self) -> None:
        """End the query; a view of ``format="memory"`` stays as it is then."""
        if self.query is not None:
            self.query.stop()


@dataclass
class View:
    """The query's sink, and what is printed of it.

    Attributes:
        declared: The table, where its own query is of interest.
        lake: Where it is.
        limit: Rows printed of each micro-batch.
        name: Of the view in memory; empty for printing.
        query: What is asked of the rows; they are shown as they are where it is None.
        taken: By micro-batch: its first rows, and how many it has.
    """

    declared: Table | None
    lake: Lake
    limit: int
    name: str
    query: ViewQuery | None = None
    taken: dict[int, tuple[list[dict[str, Any]], int]] = field(default_factory=dict)

    def start(self, spark: SparkSession, seen: Watched, after: int | None, calls: Calls) -> None:
        """Start the query with the commits after a version, or with the table as it is."""
        rows = _rows(spark, seen.path, after)
        if self.name:
            counted = rows.observe(COUNTED, F.count(F.lit(1)).alias("rows"))
            writer = self._asked(counted).writeStream.format("memory").queryName(self.name)
        else:
            writer = self._asked(rows).writeStream.foreachBatch(guarded(self._take, calls, []))
        writer = writer.trigger(processingTime="1 second")
        if self.query is None or not self.name:
            seen.query = writer.outputMode("update" if self.query else "append").start()
            return
        try:
            seen.query = writer.outputMode("complete").start()
        except AnalysisException:
            # Spark's view keeps whole answers of aggregations alone; every other row comes once.
            seen.query = writer.outputMode("append").start()

    def _asked(self, rows: DataFrame) -> DataFrame:
        """Return what the query makes of the rows."""
        asked: Any = rows if self.query is None else self.query(rows)
        if not isinstance(asked, DataFrame) or not asked.isStreaming:
            raise DeclarationError(
                "query= returns no frame made of the rows it is given; nothing was started"
            )
        return asked

    def _take(self, batch: DataFrame, number: int) -> None:
        rows = [row.asDict() for row in printed(batch.limit(self.limit)).collect()]
        self.taken[number] = rows, batch.count() if len(rows) == self.limit else len(rows)

    def tell(self, seen: Watched, progress: StreamingQueryProgress) -> None:
        """Add a micro-batch to what was seen, and print it where it has rows."""
        observed = progress.observedMetrics.get(COUNTED)
        none: list[dict[str, Any]] = []
        rows, count = self.taken.pop(progress.batchId, (none, observed.rows if observed else 0))
        offset = json.loads(progress.sources[0].endOffset)
        # An offset before the first file of a version has all of the version before it.
        seen.version = int(offset["reservoirVersion"]) - (int(offset["index"]) < 0)
        seen.backlog = max(0, (log.version(seen.path) or 0) - seen.version)
        if not count:
            return
        took = progress.durationMs["triggerExecution"] / 1000
        seen.batches, seen.rows = seen.batches + 1, seen.rows + count
        seen.rows_per_second = count / max(took, 0.001)
        if not self.name:
            show.table(seen.table, rows)
            if count > len(rows):
                show.console.print(f"  and {many(count - len(rows), 'row')} more")
        show.console.print(
            f"batch {progress.batchId}: {many(count, 'row')}, {seen.rows_per_second:,.1f} rows per second, "
            f"up to version {seen.version}, backlog {many(seen.backlog, 'commit')}{self._of_its_query()}"
        )

    def _of_its_query(self) -> str:
        """Return how far the query that fills a declared table has come."""
        done = newest(self.lake.path(self.declared)) if self.declared else None
        if self.declared is None or done is None:
            return ""
        upstream = log.version(self.lake.upstream_log(self.declared))
        waits = 0 if upstream is None else max(0, upstream - position(self.declared, self.lake))
        words = f"{done.read:,} read, {done.written:,} written, {done.quarantined:,} quarantined"
        return f"; its query: {words} in {done.seconds:.1f} s, backlog {many(waits, 'upstream version')}"


def _rows(spark: SparkSession, path: Path, after: int | None) -> DataFrame:
    """Return a table as a stream: each row as it is now, with the kind of change where the table tells it."""
    feed = log.properties(path).get("delta.enableChangeDataFeed") == "true"
    # Without a feed a rewritten file is shown whole: rather a row twice than one unseen.
    asked = {"readChangeFeed": "true"} if feed else {"ignoreChanges": "true"}
    reader = spark.readStream.format("delta").options(**asked).option("maxFilesPerTrigger", ALL_FILES)
    if after is None:
        rows = reader.load(str(path))
    elif feed:
        # Delta begins a feed with a version there is: the one that was seen, whose rows are left out.
        rows = reader.option("startingVersion", after).load(str(path))
        rows = rows.where(F.col("_commit_version") > after)
    else:
        rows = reader.option("startingVersion", "latest").load(str(path))
    return rows.where(F.col(CHANGE_TYPE) != "update_preimage") if feed else rows
