"""Which code wrote a table: a version of its declaration, the same in every process and on every machine."""

import ast
import dis
import hashlib
import inspect
import io
import re
import sys
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, cast

from medallion_assets.declare.pipeline import Pipeline
from medallion_assets.declare.table import Read, Table
from medallion_assets.delta.batches import newest_flows
from medallion_assets.lake.paths import Lake
from medallion_assets.sources.quarantine import RULE

PARTS = (
    "its query",
    "a function or constant its query uses",
    "its expectations",
    "its keys or output mode",
    "its inputs or their schema",
)
"""The parts of a code version, in their order."""


def code_version(table: Table) -> str:
    """Return five hashes joined by ``-``, one for each of ``PARTS``.

    Comments, blank lines and the place of a function in its file do not count. Functions, classes and
    constants count as far as the query reaches them inside the package (or folder) it is in.
    """
    # Those that keys and inputs imply have another reason class.
    own = [rule for rule in table.expectations if rule.reason == RULE]
    rules = [(e.name, e.predicate, e.on_violation, e.at_most, e.in_percent) for e in own]
    sets = [(r.name, r.kind, r.on_violation, r.columns, r.drift) for r in (*table.set_rules, *table.one_each)]
    keys = (table.unique_by, table.unique_over, table.unique_within, table.row_count_column,
            table.window_overlap, table.output_mode, table.rows_out, str(table.scd))  # fmt: skip
    reads = [(name, _read_text(read)) for name, read in table.reads]
    query = cast(FunctionType, table.query)
    parts = (_text(query, body_only=True), _reached(query), (rules, sets), keys, reads)
    return "-".join(hashlib.sha256(repr(part).encode()).hexdigest()[:8] for part in parts)


def changed_parts(table: Table, lake: Lake) -> list[str]:
    """Return which of ``PARTS`` changed since the table's newest commit that names its code."""
    before = committed_code(table, lake)
    if before is None:
        return []
    pairs = zip(PARTS, before.split("-"), code_version(table).split("-"), strict=False)
    return [part for part, old, new in pairs if old != new]


def committed_code(table: Table, lake: Lake) -> str | None:
    """Return the code version the table's newest commits were made by; None where none says so."""
    found = newest_flows(lake.path(table)).get(table.flow, {}).get("code")
    return None if found is None else str(found)


def _read_text(read: Read) -> tuple[object, ...]:
    """Return how an input is read; not from which folder, which differs between machines."""
    options = [(f.name, getattr(read, f.name)) for f in fields(read) if f.name not in ("table", "source")]
    source = read.source
    landing = (
        [(f.name, getattr(source, f.name)) for f in fields(source) if f.name != "path"] if source else []
    )
    return read.table.key if read.table else "", options, landing


def _reached(query: FunctionType) -> list[tuple[str, str]]:
    """Return the name and text of everything a function uses of its own package, in a fixed order."""
    folder, seen = _own_folder(query), {id(query)}
    texts: dict[str, str] = {}
    pending = list(_used(query, folder))
    while pending:
        name, value = pending.pop()
        if id(value) in seen or isinstance(value, (Table, Read, Pipeline)):
            continue
        seen.add(id(value))
        inner = getattr(value, "__wrapped__", None) or getattr(value, "func", None)
        if inner is not None:
            # A decorated function, a partial or a Spark UDF: it carries the function it calls.
            pending.append((name, inner))
        if isinstance(value, (FunctionType, type)):
            if _is_in(inspect.getmodule(value), folder):
                texts[f"{value.__module__}.{value.__qualname__}"] = _text(value)
                pending += _used(value, folder)
        elif inner is None:
            texts[name] = _constant(value)
            pending.append((name, type(value)))
    return sorted(texts.items())


def _used(value: FunctionType | type, folder: Path) -> list[tuple[str, Any]]:
    """Return the globals, closure variables and members of own modules that a function or class uses."""
    if isinstance(value, type):
        inner = [getattr(m, "__func__", getattr(m, "fget", m)) for m in vars(value).values()]
        methods = [method for method in inner if isinstance(method, FunctionType)]
        return [
            *((base.__name__, base) for base in value.__bases__),
            *(u for m in methods for u in _used(m, folder)),
        ]
    steps = [step for code in _codes(value.__code__) for step in dis.get_instructions(code)]
    names = {str(step.argval) for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    members = {
        str(step.argval) for step in steps if step.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")
    }
    imported = [str(step.argval) for step in steps if step.opname == "IMPORT_NAME"]
    space, place = value.__globals__, value.__module__
    used = [(f"{place}.{name}", space[name]) for name in names if name in space]
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    used += [(f"{place}.{name}", cell.cell_contents) for name, cell in cells if cell != CellType()]
    modules = [found for _, found in used if isinstance(found, ModuleType)]
    modules += [
        found for name in imported for found in _modules_named(name, str(space.get("__package__") or ""))
    ]
    others = [(name, found) for name, found in used if not isinstance(found, ModuleType)]
    return others + [pair for module in modules for pair in _members(module, members, folder)]


def _members(module: ModuleType, names: set[str], folder: Path) -> Iterator[tuple[str, Any]]:
    """Return the members of an own module under these names, those of its modules among them."""
    for name in names & vars(module).keys() if _is_in(module, folder) else ():
        member = vars(module)[name]
        if isinstance(member, ModuleType):
            yield from _members(member, names - {name}, folder)
        else:
            yield f"{module.__name__}.{name}", member


def _modules_named(name: str, package: str) -> list[ModuleType]:
    """Return the loaded modules an import inside a function may mean."""
    return [sys.modules[full] for full in (name, f"{package}.{name}") if full in sys.modules]


def _own_folder(query: FunctionType) -> Path:
    """Return the folder of the package a function is in; of its file where it is in none."""
    top = sys.modules.get(query.__module__.partition(".")[0])
    paths = list(getattr(top, "__path__", []))
    return Path(paths[0]).resolve() if paths else Path(query.__code__.co_filename).resolve().parent


def _is_in(module: ModuleType | None, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    if not file or not Path(file).resolve().is_relative_to(folder):
        return False
    return "site-packages" not in Path(file).resolve().relative_to(folder).parts


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Return a function's code and that of the functions and comprehensions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _text(value: FunctionType | type, body_only: bool = False) -> str:
    """Return the source of a function or class without decorators, comments and blank lines.

    ``body_only`` leaves out the signature as well: a query's defaults are its inputs.
    """
    try:
        source = textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError):
        # Typed into a shell: the source is nowhere.
        return value.__code__.co_code.hex() if isinstance(value, FunctionType) else value.__qualname__
    lines = source.splitlines()
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
        definition = ast.parse(source).body[0]
    except (tokenize.TokenError, SyntaxError):
        # A lambda's source is the line it is on, which may be no whole statement.
        return source
    first = definition.lineno
    if body_only and isinstance(definition, ast.FunctionDef):
        first = definition.body[0].lineno
    return "\n".join(line.rstrip() for line in lines[first - 1 :] if line.strip())


def _constant(value: object) -> str:
    """Return a constant as text that does not depend on the process: no address, no order of a set."""
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(_constant(item) for item in value))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_constant(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_constant(k)}: {_constant(v)}' for k, v in value.items())}}}"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
