"""The messages about a query over a stream: why it is refused, or what happens to a record."""

from collections.abc import Collection

from medallion_assets.declare.table import Table

TEXTS = {"CHAR", "NCHAR", "NVARCHAR", "TEXT", "VARCHAR", "VARIANT", "UNKNOWN", "NULL"}
TAKE_ALL = {"CHAR", "TEXT", "VARCHAR", "BINARY", "VARBINARY", "VARIANT"}
WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
FRACTIONS = {"FLOAT", "DOUBLE", "DECIMAL"}


def stream_of(table: Table) -> str:
    """Return the parameter that takes what is new: a stream's, or the landing files'."""
    return next(name for name, read in table.reads if read.how in ("stream", "files"))


def sorted_stream(table: Table, by: str) -> str:
    """Return why a stream cannot be sorted, empty where the table's output mode can be."""
    if table.output_mode in ("complete", "incremental") or table.once:
        return ""
    return (
        f"its query sorts the stream {stream_of(table)} (ORDER BY {by}): rows come micro-batch by "
        "micro-batch, and the table has no order. Leave ORDER BY out and sort where the table is read; rows "
        "that are read together are kept together by layout=Layout(cluster_by=...)"
    )


def grouped_stream(table: Table, keys: Collection[str], windows: bool) -> str:
    """Return why a stream cannot be grouped so, empty where it can be.

    Args:
        table: The table.
        keys: The columns it is grouped by, in lower case.
        windows: True where one of them is a window.
    """
    if table.watermarked or table.once or table.output_mode not in ("append", "update", "changes"):
        return ""
    name = stream_of(table)
    way = (
        f"Say {name}=stream(..., event_time='at', watermark='10 minutes'), after which a window closes, or "
        "output_mode='incremental' or 'complete', which keep every group"
    )
    if windows:
        return (
            f"its query groups the stream {name} by a window and has no watermark: in "
            f"{table.output_mode} mode no window could ever be known to be complete, and its state would "
            f"grow for ever. {way}"
        )
    # By the key of its rows, of which each comes once, a group is a row and what it is joined with.
    if table.output_mode != "append" or (table.unique_by and {*map(str.lower, table.unique_by)} <= {*keys}):
        return ""
    return (
        f"its query groups the stream {name} in append mode and has no watermark: each micro-batch would "
        f"write groups of its own rows alone. {way}"
    )


def sliding_windows(table: Table, most: int, always: bool) -> str:
    """Return why the rows in a table's sliding windows cannot be counted, empty where they can be.

    Args:
        table: The table.
        most: In how many windows a row lies at most.
        always: True where each row lies in as many: the size is a multiple of the slide.
    """
    if not table.row_count_column or (always and most == table.window_overlap):
        return ""
    if always:
        return (
            f"each row of the stream {stream_of(table)} lies in {most} of its sliding windows, and it says "
            f"window_overlap={table.window_overlap}: conservation counts by it. Say window_overlap={most}"
        )
    return (
        f"a row of the stream {stream_of(table)} lies in {most - 1} or in {most} of its sliding windows, so "
        "that conservation cannot tell from its counts whether a row is missing. Make the window's size a "
        "multiple of its slide"
    )


def strict_cast(cast: str, kind: str) -> str:
    """Return what a cast does to a record whose value is none of the type."""
    return (
        f"{cast} in its query fails on a value that is no {kind}: the record goes to the quarantine as "
        "query_failed, and where more than 20 of a batch do, the run fails and nothing is written. "
        f"{cast.replace('CAST(', 'TRY_CAST(', 1)} gives NULL instead, which an expectation can judge"
    )


def window_function(table: Table, name: str) -> str:
    """Return what a function OVER rows of a stream sees; empty where the table takes all of its rows."""
    if table.output_mode not in ("append", "update", "changes") or table.once:
        return ""
    return (
        f"{name}() OVER (...) in its query sees the rows of one micro-batch of the stream {stream_of(table)} "
        "alone, so that its values depend on how files are cut into batches. Compute it where the table is "
        "read, over all of its rows"
    )


FILE_NAMES = ("input_file_name", "input_file_block_start", "input_file_block_length")
"""Functions that tell which file a row was read from, by Spark's names of them."""


def name_of_file(table: Table, asked: str) -> str:
    """Return why a query over landing files cannot ask Spark for a record's file; empty for other queries."""
    if not table.source:
        return ""
    return (
        f"its query asks for {asked}, and records are read through files of the engine's own, whose names it "
        f"would give. Use the columns _source_file and _source_modified_at of {stream_of(table)}"
    )


def may_fail(of: str, to: str) -> bool:
    """Return true where a value of one type may not fit another, by the names sqlglot has for them."""
    if to in TAKE_ALL or of == to:
        return False
    if of in WHOLE and to in WHOLE:
        return WHOLE.index(of) > WHOLE.index(to)
    return of in TEXTS or (of in FRACTIONS and to in WHOLE)
