"""``accept_changes``: rows that were deleted by hand count as that, and the books hold again."""

import getpass
import uuid

from medallion_assets.declare.table import Table
from medallion_assets.delta.batches import Batch, stamp
from medallion_assets.delta.commit import Transaction, commit_nothing
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import newest_batch, position
from medallion_assets.lake.writer import sole_writer
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, refused
from medallion_assets.quality.by_hand import hand_made
from medallion_assets.quality.conservation import balance


def accept_changes(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Count rows that a DELETE by hand took out as removed by hand, with who, when and why.

    Never more rows than such commits took out: what is missing besides stays missing. Who, why and how many
    go into a commit of the table.

    Raises:
        TableBusy: Another process writes the table.
    """
    if not asked.why.strip():
        return refused(table, "say why with --why; the reason stays in the table's history")
    if table.row_count_column:
        return refused(table, f"an aggregate is made again by `medallion full_refresh {table.key}`")
    with sole_writer(table, lake):
        books, made = balance(table, lake), hand_made(table, lake)
        if books.holds:
            return VerbResult(table.key, f"nothing to accept: {books}")
        removed, total = sum(change.removed for change in made), books.by_hand + books.missing
        named = "; ".join(map(str, made)) or "none"
        if not min(0, removed) <= total <= max(0, removed):
            return refused(table, f"{books}; commits by hand explain {removed} of it ({named})")
        if not asked.dry_run:
            _record(table, lake, spark, asked, books.missing)
    word = "would count" if asked.dry_run else "count"
    words = f"{books.missing} rows {word} as removed by hand ({named}): {asked.why}"
    return VerbResult(table.key, words, "its log", "a commit without rows", (), True, {"rows": books.missing})


def _record(table: Table, lake: Lake, spark: Spark, asked: VerbRequest, rows: int) -> None:
    run, path, last = asked.run_id or uuid.uuid4().hex, lake.path(table), newest_batch(table, lake)
    batch = Batch(
        position(table, lake), 0, 0, 0, by_hand=rows, statics=dict(last.statics) if last else {}, run_id=run,
        strategy=f"removed by hand, accepted: {asked.why}", open_rows=last.open_rows if last else 0,
    )  # fmt: skip
    accepted = {"rows": rows, "why": asked.why, "who": _user()}
    metadata = {"run_id": run, "table": table.key, "accepted": accepted}
    signed = Transaction(f"{table.key}/accept/{run}", 0, metadata)
    commit_nothing(spark(), path, stamp(signed, path, table.flow, batch))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container's user may have a number and no name.
        return "unknown"
