"""What a declaration may not say, found out when it loads and not at three in the morning."""

import re
from collections.abc import Mapping

from medallion_assets.tables.errors import DeclarationError
from medallion_assets.tables.table import Table

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Names become folders and SQL identifiers: nothing that could climb out of the lake or end a quote."""


def refuse_what_cannot_work(table: Table, declared: Mapping[str, Table]) -> None:
    """Raises a ``DeclarationError`` with file and line for the first rule the table breaks."""
    for problem in (*_names(table, declared), *_reads(table), *_output(table)):
        raise DeclarationError(f"{table.declared_at}: {table.key}: {problem}")


def _names(table: Table, declared: Mapping[str, Table]) -> list[str]:
    odd = [part for part in (table.pipeline, table.name) if not NAME.fullmatch(part)]
    names = [e.name for e in table.expectations]
    twice = sorted({name for name in names if names.count(name) > 1})
    problems = [f"the name {part!r} is not lower-case letters, digits and _" for part in odd]
    problems += [f"the expectation {name} stands twice" for name in twice]
    if table.key in declared:
        problems.append(f"declared twice, first at {declared[table.key].declared_at}")
    if not table.description.startswith("One row per "):
        problems.append('its docstring is its description in the UI and starts with "One row per "')
    return problems


def _reads(table: Table) -> list[str]:
    hows = [read.how for _, read in table.reads]
    flows = hows.count("files") + hows.count("stream")
    problems = []
    if flows != 1:
        problems.append(f"reads {flows} streams; it needs exactly one stream(...) or landing(...)")
    copies = table.once and "files" not in hows
    if ("files" in hows) != (table.layer == "bronze") and not copies:
        problems.append("bronze reads files, silver and gold read tables")
    for _, read in table.reads:
        if read.how != "files" and not isinstance(read.table, Table):
            problems.append(f"{read.how}(...) takes a table, not {read.table!r}")
    return problems or _stream(table)


def _stream(table: Table) -> list[str]:
    upstream = table.streams_from
    if upstream and upstream.output_mode == "complete":
        return [f"cannot stream from {upstream.key}, which rewrites itself; read it with static(...)"]
    return []


def _output(table: Table) -> list[str]:
    if table.output_mode not in ("append", "complete"):
        return [f"output mode {table.output_mode!r} is neither append nor complete"]
    if table.output_mode == "append":
        return ["counts_rows is for complete mode"] if table.counts_rows else []
    if table.layer == "bronze":
        return ["bronze appends: complete mode would rewrite what landed"]
    if table.unique_by or table.expectations:
        return ["complete mode aggregates; put expectations and unique_by on the table it streams from"]
    return [] if table.counts_rows else ["complete mode needs counts_rows, so that no row vanishes unseen"]
