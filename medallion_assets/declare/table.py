"""The declaration of a table: frozen data classes with look-ups only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.errors import DeclarationError, known_options
from medallion_assets.declare.expectations import Expectation, SetRule
from medallion_assets.declare.layout import Layout
from medallion_assets.declare.scd import Changes
from medallion_assets.sources import Source


def answered(answer: DataFrame | str, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """Return a query's answer: the frame it gave, or what its SQL says over the inputs by their names.

    The inputs are temporary views of the micro-batch's own session, so that nothing else sees them.
    """
    if isinstance(answer, DataFrame):
        return answer
    for name, frame in inputs.items():
        frame.createOrReplaceTempView(name)
    return next(iter(inputs.values())).sparkSession.sql(answer)


Layer = Literal["bronze", "silver", "gold"]
OutputMode = Literal["append", "update", "complete", "incremental", "changes"]
Unmatched = Literal["", "keep", "quarantine", "retry"]
Repeated = Literal["fail", "keep_one"]
RowsOut = Literal["one", "many"]

SOURCE_ROW = "_check_source_row"
"""A column of the stream where ``rows_out`` is ``many``: names the upstream row. The query has to keep it."""


@dataclass(frozen=True)
class Read:
    """One input of a query: how it is read, and from which table or source.

    Attributes:
        on: For a static table: the columns the query joins it by, on both sides.
        unmatched: What becomes of streamed rows that find no static row; empty leaves it to the query.
        unique_by: Columns that name a static row once.
        repeated: What to do where they do not.
        follow: Rows that were joined are joined again when the static row changes.
        event_time, watermark: For a stream: when a row happened, and how late one may come.
        asked_by: The rule that looks rows up in it; the query takes no frame of it.
    """

    how: Literal["files", "stream", "static"]
    table: "Table | None" = None
    source: Source | None = None
    on: tuple[str, ...] = ()
    unmatched: Unmatched = ""
    unique_by: tuple[str, ...] = ()
    repeated: Repeated = "fail"
    follow: bool = False
    event_time: str = ""
    watermark: str = ""
    asked_by: str = ""


@dataclass(frozen=True)
class Table:
    """A declared table; calling it runs its query on frames, which is its unit test.

    Attributes:
        pipeline, layer, name: Its key and its path, ``<lake>/<pipeline>/<layer>/<name>``.
        query: The decorated function: frames in, a frame or SQL over their names out.
        reads: The query's parameters and what each reads, in their order.
        output_mode: ``append`` writes each row once; ``update`` writes the rows of a stateful query that
            changed; ``complete`` rewrites the table's aggregate; ``incremental`` gives what complete
            gives at the cost of what is new; ``changes`` keeps the state of each key (``scd``).
        expectations: Rules of good rows.
        unique_by: Columns whose combination is unique; later rows of one are counted, not written.
        row_count_column: For aggregates: the column with the number of upstream rows of a row.
        flow: For a further stream into a table: the stream's own name.
        flows: Further streams into the table, each with a checkpoint of its own.
        layout: How its Delta table is made.
        unique_over, unique_within: A key that comes again is a duplicate only this long, by this column.
        window_overlap: The number of windows that an upstream row is in: for sliding windows, size by slide.
        write_audit_publish: Each batch is judged as a whole before anyone can read it.
        set_rules: Rules of the table as a whole, judged after a run.
        rows_out: ``many`` where the query may give several rows for one of upstream: an ``explode``, a join
            that fans out. It keeps the column ``_check_source_row``, which is not written; an upstream row
            that no row names goes to quarantine.
        one_each: Rules that let one row of each combination of their columns through.
        owners: E-mails or ``team:name``.
        declared_at: ``file:line`` of the query.
        registry: Every table of its pipeline, by key.
        once: Filled by its first refresh and left alone after it, as CREATE TABLE AS SELECT does.
        keeps: How a change feed becomes a slowly changing dimension.
        trigger: ``availableNow``, ``once``, or the processing time between its micro-batches in a stream.
        fresh_within: How old its newest materialization may be, as ``1 day``; empty where any age will do.
        query_warnings: What its SQL does to records that a person may not expect.
    """

    pipeline: str
    layer: Layer
    name: str
    query: Callable[..., DataFrame | str] = field(compare=False, repr=False)
    reads: tuple[tuple[str, Read], ...]
    output_mode: OutputMode = "append"
    expectations: tuple[Expectation, ...] = ()
    unique_by: tuple[str, ...] = ()
    row_count_column: str = ""
    owners: tuple[str, ...] = ()
    declared_at: str = ""
    once: bool = False
    registry: Mapping[str, "Table"] = field(default_factory=dict, compare=False, repr=False)
    scd: Changes | None = None
    window_overlap: int = 1
    layout: Layout = field(default_factory=Layout)
    unique_over: str = ""
    unique_within: str = ""
    flow: str = ""
    write_audit_publish: bool = False
    set_rules: tuple[SetRule, ...] = ()
    one_each: tuple[SetRule, ...] = ()
    rows_out: RowsOut = "one"
    trigger: str = ""
    fresh_within: str = ""
    query_warnings: tuple[str, ...] = field(default=(), compare=False)
    flows: "list[Table]" = field(default_factory=list, compare=False, repr=False)

    @property
    def key(self) -> str:
        """``pipeline/layer/name``."""
        return f"{self.pipeline}/{self.layer}/{self.name}"

    @property
    def description(self) -> str:
        """The query's docstring."""
        return self.query.__doc__ or ""

    @property
    def source(self) -> Source | None:
        """The landing zone it reads, for bronze."""
        return next((read.source for _, read in self.reads if read.source), None)

    @property
    def streams_from(self) -> "Table | None":
        """The table whose new rows it reads, for silver and gold."""
        return next((read.table for _, read in self.reads if read.how == "stream"), None)

    @property
    def statics(self) -> dict[str, "Table"]:
        """The static inputs, by parameter."""
        return {name: read.table for name, read in self.reads if read.how == "static" and read.table}

    @property
    def streamed(self) -> str:
        """The parameter of the streamed input."""
        return next(name for name, read in self.reads if read.how == "stream")

    @property
    def stateful(self) -> bool:
        """Return true where Spark keeps state for the query from one micro-batch to the next."""
        return self.output_mode in ("complete", "update") or self.watermarked

    @property
    def watermarked(self) -> bool:
        """Return true where rows can come too late."""
        return any(read.watermark for _, read in self.reads)

    @property
    def refuses(self) -> bool:
        """Return true where rows can go to quarantine; an aggregate takes what upstream has judged."""
        return self.output_mode in ("append", "changes") and not self.stateful

    @property
    def counted_once_by(self) -> tuple[str, ...]:
        """The columns by which a repeated row is a duplicate."""
        if self.scd:
            return (*self.scd.keys, self.scd.sequence_by)
        return self.unique_by if self.output_mode == "append" and not self.stateful else ()

    @property
    def named_once_by(self) -> tuple[str, ...]:
        """The columns whose combination is unique in the table."""
        if self.scd:
            return self.scd.keys if self.scd.type == 1 else (*self.scd.keys, "__START_AT")
        return () if self.unique_within else self.unique_by

    @property
    def recomputed_by(self) -> tuple[str, ...]:
        """The key columns by which rows are recomputed after an upstream change; empty for all rows."""
        if self.unique_within:
            # A key may occur more than once, so it does not identify a row.
            return ()
        return self.scd.keys if self.scd else self.unique_by

    @property
    def upstream(self) -> tuple["Table", ...]:
        """Every table it or one of its flows reads."""
        own = [read.table for _, read in self.reads if read.table]
        return tuple(dict.fromkeys([*own, *(up for flow in self.flows for up in flow.upstream)]))

    def __call__(self, *frames: DataFrame, **named: DataFrame) -> DataFrame:
        """Run the query on these frames, one for each input."""
        names = [name for name, read in self.reads if not read.asked_by]
        given = dict(zip(names, frames, strict=False)) | named
        missing = [name for name in names if name not in given]
        if missing:
            # Otherwise the default, a marker object, would be passed to Spark.
            raise DeclarationError(f"{self.key} needs a frame for {', '.join(missing)}")
        if self.rows_out == "one" or SOURCE_ROW in given[self.streamed].columns:
            return answered(self.query(**given), given)
        # A unit test's frame: what the engine adds to the stream, and takes off again.
        given[self.streamed] = given[self.streamed].withColumn(SOURCE_ROW, F.lit(""))
        return answered(self.query(**given), given).drop(SOURCE_ROW)


@known_options
def stream(table: Any, *, event_time: str = "", watermark: str = "") -> Any:
    """Say that a parameter takes the rows of ``table`` that are new since the last refresh.

    Args:
        table: The table.
        event_time: The TIMESTAMP column that says when a row happened.
        watermark: How late a row may come, as ``1 minute``: with it the query keeps state, windows
            close, and rows that come later still go to quarantine as ``late``. In append mode a window is
            written once, when it closes; in update mode whenever it changes.
    """
    return Read("stream", table=table, event_time=event_time, watermark=watermark)


@known_options
def static(
    table: Any,
    *,
    on: str | Sequence[str] = (),
    unmatched: Unmatched = "",
    unique_by: str | Sequence[str] = (),
    repeated: Repeated = "fail",
    follow: bool = False,
) -> Any:
    """Declare that a parameter takes all rows of ``table``, in its version when the batch is prepared.

    Args:
        table: The table.
        on: The columns the query joins it by, of the same names in the streamed and the static rows.
        unmatched: What becomes of streamed rows that find none: ``keep`` counts them, ``quarantine``
            moves them, ``retry`` moves them and brings them through once the table knows them. Those
            rows reach the query with NULL for the table's other columns, so an inner join loses none.
        unique_by: Columns that name one row of the table; a join by others would multiply rows.
        repeated: Where they name several: ``fail`` stops the run and names them, ``keep_one`` takes
            the row that landed last.
        follow: Rows that were joined with a row of the table are joined again when it changes.
    """
    return Read("static", table, None, _names(on), unmatched, _names(unique_by), repeated, follow)


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def other_flows(table: Table) -> list[Table]:
    """Return the streams that go into the same table as this one."""
    into = table.registry.get(table.key, table)
    return [other for other in (into, *into.flows) if other.flow != table.flow]
