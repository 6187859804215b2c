"""Check a declaration when it loads; an invalid one is refused with file and line."""

import re
import warnings
from collections.abc import Mapping
from dataclasses import replace

from medallion_assets.declare import query_checks
from medallion_assets.declare.errors import DeclarationError, QueryWarning
from medallion_assets.declare.layout import Layout
from medallion_assets.declare.table import Table
from medallion_assets.declare.triggers import timing_of
from medallion_assets.sources.errors import seconds_of

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Names become folders and SQL identifiers: nothing that could climb out of the lake or end a quote."""

MODES = ("append", "update", "complete", "incremental", "changes")
SHORTEST_FRESHNESS = 60
"""Seconds: what looks after freshness does not look more often."""
UNMATCHED = ("", "keep", "quarantine", "retry")


def refuse_what_cannot_work(table: Table, declared: Mapping[str, Table]) -> None:
    """Raise a ``DeclarationError`` with file and line for the first rule the table breaks.

    Args:
        table: The table.
        declared: The tables of every pipeline by their keys.
    """
    for problem in (
        *_names(table, declared),
        *_reads(table),
        *_topic(table, declared),
        *_output(table),
        *_statics(table),
    ):
        raise DeclarationError(f"{table.declared_at}: {table.key}: {problem}")
    for problem in query_checks.problems_of(table):
        raise DeclarationError(f"{table.declared_at}: {table.key}: {problem}")


def refuse_flow(flow: Table, into: Table) -> None:
    """Raise a ``DeclarationError`` where a further stream cannot go into the table."""
    problems = _reads(flow)
    if into.output_mode not in ("append", "changes") or into.stateful or into.source:
        problems.append(f"{into.key} does not append rows of tables: it cannot take a further stream")
    if flow.flow in [other.flow for other in into.flows]:
        problems.append(f"the flow {flow.flow} is declared twice")
    for problem in problems or query_checks.problems_of(flow):
        raise DeclarationError(f"{flow.declared_at}: {into.key}, flow {flow.flow}: {problem}")


def with_warnings(table: Table) -> Table:
    """Return the table with the warnings about its query's SQL; emit each as ``QueryWarning`` at its line."""
    file, line = table.declared_at.rsplit(":", 1)
    messages = query_checks.warnings_of(table)
    for words in messages:
        warnings.warn_explicit(f"{table.key}: {words}", QueryWarning, file, int(line))
    return replace(table, query_warnings=messages)


def _names(table: Table, declared: Mapping[str, Table]) -> list[str]:
    odd = [part for part in (table.pipeline, table.name) if not NAME.fullmatch(part)]
    names = [*(e.name for e in table.expectations), *(rule.name for rule in table.set_rules)]
    twice = sorted({name for name in names if names.count(name) > 1})
    problems = [f"the name {part!r} is not lower-case letters, digits and _" for part in odd]
    problems += [f"the expectation {name} is declared twice" for name in twice]
    try:
        timing_of(table.trigger)
    except DeclarationError as error:
        problems.append(str(error))
    problems += _freshness(table)
    shared = [t.key for t in declared.values() if table.source and t.source
              and t.source.file_events == table.source.file_events != ""]  # fmt: skip
    if shared and shared != [table.key]:
        problems.append(
            f"its queue of file events is that of {shared[0]}: a message goes to one of them only"
        )
    if table.key in declared:
        problems.append(f"declared twice, first at {declared[table.key].declared_at}")
    return problems


def _freshness(table: Table) -> list[str]:
    if not table.fresh_within:
        return []
    try:
        seconds = seconds_of(table.fresh_within)
    except ValueError:
        return [f"fresh_within {table.fresh_within!r} is not a duration as 1 day or 90 minutes"]
    short = f"fresh_within {table.fresh_within!r} is shorter than {SHORTEST_FRESHNESS} seconds"
    return [short] if seconds < SHORTEST_FRESHNESS else []


def _reads(table: Table) -> list[str]:
    hows = [read.how for _, read in table.reads]
    flows = hows.count("files") + hows.count("stream")
    problems = []
    if flows != 1:
        problems.append(f"reads {flows} streams; it needs exactly one stream(...) or landing(...)")
    copies = table.once and "files" not in hows
    if ("files" in hows) != (table.layer == "bronze") and not copies:
        problems.append("bronze reads files, silver and gold read tables")
    for name, read in table.reads:
        if bool(read.watermark) != bool(read.event_time):
            problems.append(f"{name}: event_time and watermark need each other")
        if read.watermark and table.output_mode not in ("append", "update", "complete"):
            problems.append(f"{name}: a watermark closes windows in append, update or complete mode")
        if read.how != "files" and not isinstance(read.table, Table):
            problems.append(f"{read.how}(...) takes a table, not {read.table!r}")
    return problems or _stream(table)


def _topic(table: Table, declared: Mapping[str, Table]) -> list[str]:
    """Return the tables that land a topic in the same folder: with two, a message could land twice."""
    folder = _folder_of_topic(table)
    return [
        f"{other.key} lands a topic in the same folder: give this source another name, or path, of its own"
        for other in declared.values()
        if folder and other.key != table.key and folder == _folder_of_topic(other)
    ]


def _folder_of_topic(table: Table) -> tuple[str, str] | None:
    if not table.source or not table.source.kafka:
        return None
    path = table.source.path.rstrip("/")
    return ("", path) if path else (table.pipeline, table.source.name)


def _stream(table: Table) -> list[str]:
    upstream = table.streams_from
    if upstream and upstream.output_mode == "complete":
        return [f"cannot stream from {upstream.key}, which rewrites itself; read it with static(...)"]
    return []


def _output(table: Table) -> list[str]:
    if table.output_mode not in MODES:
        return [f"output mode {table.output_mode!r} is none of {', '.join(MODES)}"]
    problems = table.layout.problems()
    comments_only = Layout(comment=table.layout.comment, column_comments=table.layout.column_comments)
    if table.layer == "bronze" and table.layout != comments_only:
        problems.append("a layout but for its comments is for silver and gold: bronze takes what lands")
    if table.layer == "bronze" and (table.one_each or table.statics):
        problems.append("rules that look at other rows or tables are for silver and gold")
    if table.layer == "bronze" and table.write_audit_publish:
        problems.append("a gate is for silver and gold: bronze is what landed, good or not")
    if bool(table.unique_over) != bool(table.unique_within) or (table.unique_within and not table.unique_by):
        problems.append("unique_within needs unique_by and unique_over, the column it is measured in")
    if table.rows_out not in ("one", "many"):
        problems.append(f"rows_out {table.rows_out!r} is neither one nor many")
    if table.rows_out == "many" and (table.source or not table.refuses):
        problems.append("rows_out='many' is for tables that append rows of other tables, or keep changes")
    if table.rows_out == "many" and any(read.follow and not read.unmatched for _, read in table.reads):
        problems.append("rows_out='many' with follow needs unmatched: a row that loses its match is kept")
    if problems:
        return problems
    if table.layer == "bronze" and table.output_mode != "append":
        return [f"bronze appends: {table.output_mode} mode would rewrite what landed"]
    if table.one_each and table.unique_by:
        return ["unique(...) that refuses rows and unique_by are two answers to one question: say one"]
    if table.output_mode == "append" and not table.stateful:
        return ["row_count_column is for aggregates"] if table.row_count_column else []
    if table.scd:
        both = table.unique_by or table.row_count_column or table.one_each
        return ["keep_changes names the keys itself: leave out unique and row_count_column"] if both else []
    return _aggregate(table)


def _aggregate(table: Table) -> list[str]:
    mode, problems = table.output_mode, []
    if any(not e.name.endswith("_matched") for e in table.expectations):
        problems.append(f"{mode} mode aggregates; put expectations on the table it streams from")
    if mode == "complete" and table.unique_by:
        problems.append("complete mode rewrites the whole table and needs no unique_by")
    if mode == "update" and not table.unique_by:
        problems.append("update mode merges by keys: say unique_by")
    if not table.row_count_column:
        problems.append(f"{mode} mode needs row_count_column, so that no row vanishes unseen")
    return problems


def _statics(table: Table) -> list[str]:
    problems = []
    for name, read in table.reads:
        asks = read.unmatched or read.follow
        if asks and not read.on:
            problems.append(f"{name}: unmatched and follow need on=, the columns it is joined by")
        if read.unmatched not in UNMATCHED:
            problems.append(f"{name}: unmatched {read.unmatched!r} is none of keep, quarantine, retry")
        if read.repeated not in ("fail", "keep_one"):
            problems.append(f"{name}: repeated {read.repeated!r} is neither fail nor keep_one")
        if asks and table.output_mode in ("complete", "update", "incremental"):
            problems.append(f"{name}: put unmatched and follow on the table this one streams from")
        if (read.follow or read.unmatched == "retry") and not table.recomputed_by:
            problems.append(f"{name}: rows can only be joined again where unique_by names them")
    return problems
