"""What the UI shows of a run: numbers that plot, the table's columns, a small picture of its last batches."""

import base64
from collections.abc import Mapping
from typing import Any

import dagster as dg

from medallion_assets.declare.table import Read, Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import Batch
from medallion_assets.lake.paths import Lake
from medallion_assets.quality.verdicts import Verdict
from medallion_assets.reports import history_of, last_files, quarantine_counts, quarantine_rows
from medallion_assets.reports.state import batches_of
from medallion_assets.runs.run import Refresh
from medallion_assets.runtime.query_checks import query_warnings
from medallion_assets.sources.quarantine import held_rows

Metadata = Mapping[str, Any]
BAR_WIDTH, PICTURE_HEIGHT, BARS = 14, 60, 24
MOST_RULES, MOST_COMMITS = 100, 10


def refreshed(table: Table, lake: Lake, done: Refresh) -> Metadata:
    """Return a materialization's metadata; the same few numeric keys each time, so that they plot."""
    path = lake.path(table)
    shown: dict[str, Any] = {
        "dagster/row_count": log.row_count(path),
        "dagster/uri": str(path),
        "dagster/column_schema": _column_schema(table, lake),
        "delta_version": -1 if done.version is None else done.version,
        "rows_read": done.total("read"),
        "rows_written": done.total("written"),
        "rows_quarantined": done.total("quarantined"),
        "duplicates": done.total("duplicates"),
        "files": done.total("files"),
        "micro_batches": len(done.batches),
        "seconds": round(done.seconds, 2),
    }
    if messages := query_warnings(table, lake):
        shown["query_warnings"] = dg.MetadataValue.md("\n".join(f"- {words}" for words in messages))
    if done.skipped:
        shown["skipped"] = done.skipped
    if done.batches:
        shown["strategy"] = done.batches[-1].strategy
        shown |= _state(table, done.batches[-1]) | {"late_rows": done.total("late")} if table.stateful else {}
    if table.source:
        shown["rows_rescued"] = done.total("rescued")
        shown["file_ledger"] = dg.MetadataValue.md(_grid([_as_code(f) for f in last_files(table, lake)]))
    commits = _grid(history_of(table, lake, MOST_COMMITS))
    pages = {"history": commits, "last_batches": picture(table, lake)}
    return shown | {name: dg.MetadataValue.md(page) for name, page in pages.items()}


def micro_batch(table: Table, lake: Lake, batch: Batch, latency_seconds: float | None = None) -> Metadata:
    """Return the metadata of one micro-batch that was written while a stream or the command line ran."""
    shown: dict[str, Any] = {
        "dagster/row_count": log.row_count(lake.path(table)),
        "dagster/uri": str(lake.path(table)),
        "delta_version": log.version(lake.path(table)) or 0,
        "rows_read": batch.read,
        "rows_written": batch.written,
        "rows_quarantined": batch.quarantined,
        "duplicates": batch.duplicates,
        "files": batch.files,
        "micro_batch": batch.position,
        "seconds": round(batch.seconds, 2),
        "strategy": batch.strategy,
        "run": batch.run_id,
    } | _state(table, batch)
    return shown if latency_seconds is None else shown | {"latency_seconds": round(latency_seconds, 2)}


def _state(table: Table, batch: Batch) -> dict[str, Any]:
    if not table.stateful:
        return {}
    return {
        "late_rows": batch.late,
        "open_groups": batch.open_groups,
        "state_bytes": batch.state_bytes,
        "watermark": batch.watermark or "none",
    }


def quarantine(table: Table, lake: Lake, done: Refresh) -> Metadata:
    """Return the metadata of what a refresh quarantined: how many, by which rule, and how to look."""
    # Rules of records that could not be parsed are their reasons, of which there may be any number.
    counts = quarantine_counts(table, lake, MOST_RULES)
    return {
        "dagster/row_count": held_rows(lake.quarantine(table)),
        "dagster/uri": str(lake.quarantine(table)),
        "rows_quarantined": done.total("quarantined"),
        "by_rule": dg.MetadataValue.md(_grid(counts)),
        # Counts and hints only: a row may hold what not everyone who sees this page may read.
        "look": f"medallion quarantine show {table.key}",
        "newest_reasons": ", ".join(
            sorted({r for row in quarantine_rows(table, lake, 5) for r in row["rules"]})
        ),
    }


def check_result(verdict: Verdict, key: dg.AssetKey) -> dg.AssetCheckResult:
    """Return a verdict as a check's result; only one that blocks is an error."""
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=verdict.name,
        passed=verdict.passed,
        severity=dg.AssetCheckSeverity.ERROR if verdict.blocking else dg.AssetCheckSeverity.WARN,
        description=verdict.words,
        metadata=verdict.numbers,
    )


def expectations_table(table: Table) -> str:
    """Return the table's rules as a markdown table."""
    rules = [
        {"rule": e.name, "good rows": f"`{e.predicate}`", "on violation": e.on_violation}
        for e in table.expectations
    ]
    rules += [
        {"rule": r.name, "good rows": f"{r.kind} {', '.join(r.columns)}", "on violation": r.on_violation}
        for r in table.set_rules
    ]
    return _grid(rules) if rules else "none"


def lineage(table: Table) -> str:
    """Return what the table reads, and how, as a markdown list."""
    return "\n".join(f"- `{n}`: {r.how} of `{_read_from(r)}`{_terms(r)}" for n, r in table.reads)


def _terms(read: Read) -> str:
    """Return the terms of an input for the description: how it is joined, how late its rows may come."""
    terms = {
        "joined by": ", ".join(read.on),
        "without a match": read.unmatched,
        "one row a": ", ".join(read.unique_by),
        "by": read.event_time,
        "late after": read.watermark,
    }
    words = [f"{key} {value}" for key, value in terms.items() if value]
    words += ["followed when it changes"] if read.follow else []
    return f" ({'; '.join(words)})" if words else ""


def picture(table: Table, lake: Lake) -> str:
    """Return a bar for each of the last micro-batches as an inline picture: written, quarantined on top."""
    last = batches_of(table, lake)[-BARS:]
    tallest = max((b.written + b.quarantined for b in last), default=0) or 1
    bars = "".join(_bar(i, b.written, b.quarantined, tallest) for i, b in enumerate(last))
    size = f'width="{BAR_WIDTH * BARS}" height="{PICTURE_HEIGHT}"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{bars}</svg>'
    return f"![rows of the last batches](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"


def _bar(position: int, written: int, quarantined: int, tallest: int) -> str:
    good = round(written / tallest * PICTURE_HEIGHT)
    # A single refused row among thousands must still be seen.
    bad = max(round(quarantined / tallest * PICTURE_HEIGHT), 2 if quarantined else 0)
    x, width = position * BAR_WIDTH, BAR_WIDTH - 3
    top = max(PICTURE_HEIGHT - good - bad, 0)
    return (
        f'<rect x="{x}" y="{PICTURE_HEIGHT - good}" width="{width}" height="{good}" fill="#4f8a5b"/>'
        f'<rect x="{x}" y="{top}" width="{width}" height="{bad}" fill="#c0392b"/>'
    )


def _read_from(read: Read) -> str:
    if read.table:
        return read.table.key
    return f"landing/{read.source.name}" if read.source else ""


def _column_schema(table: Table, lake: Lake) -> dg.TableSchema:
    return dg.TableSchema([dg.TableColumn(name, kind) for name, kind in log.schema(lake.path(table))])


def _as_code(file: dict[str, Any]) -> dict[str, Any]:
    # A file's name comes from outside: shown as it is, never as markup; a line end would end the cell.
    path = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(file["path"]))
    return file | {"path": "`" + path.replace("`", "'") + "`"}


def _grid(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "nothing"
    head = "| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0])
    lines = ["| " + " | ".join(str(v).replace("|", "\\|") for v in row.values()) + " |" for row in rows]
    return "\n".join([head, *lines])
