"""What a table is: frozen records, no behaviour beyond looking things up."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql import DataFrame

from medallion_assets.ingestion import Source
from medallion_assets.tables.errors import DeclarationError
from medallion_assets.tables.expectations import Expectation

Layer = Literal["bronze", "silver", "gold"]
OutputMode = Literal["append", "complete"]


@dataclass(frozen=True)
class Read:
    """One input of a query: how it is read, and from which table or source."""

    how: Literal["files", "stream", "static"]
    table: "Table | None" = None
    source: Source | None = None


@dataclass(frozen=True)
class Table:
    """A declared table; calling it runs its query on frames, which is its unit test.

    Attributes:
        pipeline, layer, name: Its key and its path, ``<lake>/<pipeline>/<layer>/<name>``.
        query: The decorated function: frames in, a frame out, nothing else touched.
        reads: The query's parameters and what each reads, in their order.
        output_mode: ``append`` writes each row once; ``complete`` rewrites the table's aggregate.
        expectations: Rules of good rows.
        unique_by: Columns of which each combination stands once; later ones are counted, not written.
        counts_rows: For ``complete``: the column that says how many upstream rows a row stands for.
        owners: E-mails or ``team:name``.
        declared_at: ``file:line`` of the query.
        registry: Every table of its pipeline, by key.
        once: Filled by its first refresh and left alone after it, as CREATE TABLE AS SELECT does.
    """

    pipeline: str
    layer: Layer
    name: str
    query: Callable[..., DataFrame] = field(compare=False, repr=False)
    reads: tuple[tuple[str, Read], ...]
    output_mode: OutputMode = "append"
    expectations: tuple[Expectation, ...] = ()
    unique_by: tuple[str, ...] = ()
    counts_rows: str = ""
    owners: tuple[str, ...] = ()
    declared_at: str = ""
    once: bool = False
    registry: Mapping[str, "Table"] = field(default_factory=dict, compare=False, repr=False)

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
        """The table whose new rows it takes, for silver and gold."""
        return next((read.table for _, read in self.reads if read.how == "stream"), None)

    @property
    def statics(self) -> dict[str, "Table"]:
        """The tables it reads whole, by parameter."""
        return {name: read.table for name, read in self.reads if read.how == "static" and read.table}

    @property
    def upstream(self) -> tuple["Table", ...]:
        """Every table it reads."""
        return tuple(read.table for _, read in self.reads if read.table)

    def __call__(self, *frames: DataFrame, **named: DataFrame) -> DataFrame:
        """Runs the query on these frames, one for each input."""
        given = dict(zip((name for name, _ in self.reads), frames, strict=False)) | named
        missing = [name for name, _ in self.reads if name not in given]
        if missing:
            # Else the marker that stands as the default would travel into Spark.
            raise DeclarationError(f"{self.key} needs a frame for {', '.join(missing)}")
        return self.query(**given)


def stream(table: Any) -> Any:
    """Says that a parameter takes the rows of ``table`` that are new since the last refresh."""
    return Read("stream", table=table)


def static(table: Any) -> Any:
    """Says that a parameter takes ``table`` whole, as it stands when the batch is made."""
    return Read("static", table=table)
