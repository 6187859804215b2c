"""Read a Delta table's log, in milliseconds and without a JVM.

Inside ``read_once``, every log is opened once; after that, only added commits are read.
"""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import DeltaError
from pyspark.sql.types import StructType

from medallion_assets.delta.errors import DamagedTable, UnusablePath
from medallion_assets.storage import ObjectPath, for_reader

UNUSABLE = re.compile(r"%[0-9A-Fa-f]{2}|[\\\[\]|^\x00-\x1f]")
"""Characters in a path: ``deltalake`` 1.6 decodes the first twice, and panics or fails on the others."""

UNSUPPORTED = "Unsupported table features"


@dataclass(frozen=True)
class _Logs:
    """The cache of ``read_once``: tables, commit infos, and whole log entries by version."""

    tables: dict[Path, DeltaTable] = field(default_factory=dict)
    infos: dict[tuple[Path, int], dict[str, Any]] = field(default_factory=dict)
    entries: dict[tuple[Path, int], list[dict[str, Any]]] = field(default_factory=dict)


_READ: ContextVar[_Logs | None] = ContextVar("logs read in this refresh", default=None)


@contextmanager
def read_once() -> Iterator[None]:
    """Cache the Delta logs that the block reads; entries never change, and new ones are found by their name.

    Another thread shares the cache only where it runs in a copy of the block's context.
    """
    if _READ.get() is not None:
        yield
        return
    token = _READ.set(_Logs())
    try:
        yield
    finally:
        _READ.reset(token)


def exists(path: Path) -> bool:
    """Return true where a Delta table with at least one version exists.

    Raises:
        UnusablePath: No table of this path can be opened without Spark.
    """
    _refuse_unusable(path)
    read = _READ.get()
    if read is not None and path in read.tables:
        return True
    return (path / "_delta_log").is_dir() and DeltaTable.is_deltatable(str(path))


def opened(path: Path, at_version: int | None = None) -> DeltaTable:
    """Open the table without Spark, in its newest or in a given version.

    Raises:
        DamagedTable: Its log cannot be read.
        UnusablePath: No table of this path can be.
    """
    read = _READ.get()
    if read is None or at_version is not None:
        return _opened(path, at_version)
    table = read.tables.get(path)
    if table is None:
        table = read.tables[path] = _opened(path, None)
    elif entry_of(path, table.version() + 1).exists():
        with _naming_damage(path):
            table.update_incremental()
    return table


def _opened(path: Path, at_version: int | None) -> DeltaTable:
    _refuse_unusable(path)
    with _naming_damage(path):
        return DeltaTable(str(path), version=at_version)


@contextmanager
def _naming_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (DeltaError, OSError) as error:
        # A store that does not answer damages nothing: where it does not, this raises that instead.
        if isinstance(path, ObjectPath):
            path.exists()
        raise DamagedTable(path, error) from error


def entry_of(path: Path, version: int) -> Path:
    """Return the log entry of a commit."""
    return path / "_delta_log" / f"{version:020d}.json"


def version(path: Path) -> int | None:
    """Return the table's newest version, None where there is no table."""
    return opened(path).version() if exists(path) else None


def table_id(path: Path) -> str:
    """Return the id Delta gave the table when it was created, empty where there is none."""
    return str(opened(path).metadata().id) if exists(path) else ""


def row_count(path: Path, at_version: int | None = None) -> int:
    """Return the rows the log says were committed up to a version, 0 where there is no table."""
    return rows_and_bytes(path, at_version)[0]


def rows_and_bytes(path: Path, at_version: int | None = None) -> tuple[int, int]:
    """Return the rows of a table and the bytes of its files, both 0 where there is no table."""
    if not exists(path) or (at_version or 0) < 0:
        return 0, 0
    table = opened(path, at_version)
    files = pa.table(table.get_add_actions(flatten=True))
    rows, sizes = (files.column(name).to_pylist() for name in ("num_records", "size_bytes"))
    deleted = sum(len(mask) - (pc.sum(mask).as_py() or 0) for mask in _masks(path, table).values())
    return sum(n or 0 for n in rows) - deleted, sum(sizes)


def _masks(path: Path, table: DeltaTable) -> dict[str, pa.Array]:
    """Return by name of a file that has a deletion vector which of its rows stay; later rows stay too."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    with _naming_damage(path):
        found = pa.table(table.deletion_vectors()).to_batches()
    return {Path(str(file)).name: pa.array(mask.values)
            for batch in found for file, mask in zip(*batch.columns, strict=True)}  # fmt: skip


def properties(path: Path) -> dict[str, str]:
    """Return the table's properties, none where there is no table."""
    return dict(opened(path).metadata().configuration) if exists(path) else {}


def committed_version(path: Path, app_id: str) -> int:
    """Return the version that an application id last committed, -1 where it committed none."""
    if not exists(path):
        return -1
    found = opened(path).transaction_version(app_id)
    return -1 if found is None else int(found)


def history(path: Path, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the table's commits, newest first, as the log holds them."""
    return opened(path).history(limit) if exists(path) else []


def schema(path: Path) -> list[tuple[str, str]]:
    """Return the table's columns and their types, in order."""
    fields = json.loads(opened(path).schema().to_json())["fields"] if exists(path) else []
    return [(f["name"], _type_name(f["type"])) for f in fields]


def spark_schema(path: Path) -> StructType:
    """Return the table's columns as Spark types."""
    return StructType.fromJson(json.loads(opened(path).schema().to_json()))


def rows_at(path: Path, version: int, sql: str) -> list[dict[str, Any]]:
    """Return the rows of a query over ``t``, the table in a version."""
    return _rows(sql, {"t": (path, version)})


def rows(path: Path, sql: str, **registered: Path) -> list[dict[str, Any]]:
    """Return the rows of a query over ``t`` (the table) and further named tables, as dictionaries."""
    places: dict[str, tuple[Path, int | None]] = {name: (place, None) for name, place in registered.items()}
    return _rows(sql, {"t": (path, None), **places}) if exists(path) else []


def _rows(sql: str, places: Mapping[str, tuple[Path, int | None]]) -> list[dict[str, Any]]:
    tables = {name: opened(*place) for name, place in places.items()}
    try:
        return _answer(sql, tables)
    except DeltaError as error:
        if UNSUPPORTED not in str(error):
            raise
    with tempfile.TemporaryDirectory() as folder:
        return _answer(sql, {n: _copied(places[n][0], tables[n], Path(folder) / n) for n in tables})


def batches(path: Path, sql: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query over ``t``, the table, one batch in memory at a time.

    Raises:
        DeltaError: The table has features that ``rows`` alone gets around.
    """
    for batch in QueryBuilder().register("t", opened(path)).execute(sql):
        found = pa.record_batch(batch)
        # Arrow has few functions for views.
        plain = [pa.field(f.name, PLAIN.get(f.type, f.type)) for f in found.schema]
        yield found.cast(pa.schema(plain))


PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def _answer(sql: str, tables: dict[str, DeltaTable]) -> list[dict[str, Any]]:
    query = QueryBuilder()
    for name, table in tables.items():
        query = query.register(name, table)
    return pa.table(query.execute(sql)).to_pylist()  # type: ignore[no-any-return]


def _copied(path: Path, table: DeltaTable, folder: Path) -> DeltaTable:
    """Return a copy of a table with widened columns, of which ``deltalake`` can open only the log."""
    fields = json.loads(table.schema().to_json())["fields"]
    schema = pa.schema(table.schema().to_arrow()).remove_metadata()
    physical = [f["metadata"].get("delta.columnMapping.physicalName", f["name"]) for f in fields]
    masks = _masks(path, table)

    def batches() -> Iterator[pa.RecordBatch]:
        for file in pa.table(table.get_add_actions(flatten=True)).to_pylist():
            part = pq.read_table(for_reader(path / unquote(file["path"])), partitioning=None)
            if (mask := masks.get(Path(file["path"]).name)) is not None:
                rest = pa.repeat(True, len(part) - len(mask))
                part = part.filter(pa.concat_arrays([mask, rest]))
            columns = [part.column(name).cast(field.type) if name in part.column_names
                       else pa.array([file.get(f"partition.{field.name}")] * len(part), field.type)
                       for name, field in zip(physical, schema, strict=True)]  # fmt: skip
            yield from pa.table(columns, schema).to_batches()

    write_deltalake(str(folder), pa.RecordBatchReader.from_batches(schema, batches()))
    return opened(folder)


def actions(path: Path, version: int) -> list[dict[str, Any]] | None:
    """Return a commit's actions as its log entry has them, None where the entry is gone."""
    read, entry = _READ.get() or _Logs(), entry_of(path, version)
    if (path, version) not in read.entries:
        if not entry.exists():
            return None
        read.entries[path, version] = [json.loads(x) for x in entry.read_text("utf-8").split("\n") if x]
    return read.entries[path, version]


def newest_commits(path: Path, upto: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield ``commitInfo`` and ``version`` of each commit, newest first, as far back as the log has entries.

    Entries are read one by one, so that a caller can stop early. ``commitInfo`` is the first line of an
    entry, so that the files of a large commit are not parsed.

    Args:
        path: The table.
        upto: The newest version to begin with; the table's newest where it is None.
    """
    newest, read = version(path) if upto is None else upto, _READ.get() or _Logs()
    for number in range(newest, -1, -1) if newest is not None else ():
        if (path, number) not in read.infos:
            entry = entry_of(path, number)
            if not entry.exists():
                return
            with entry.open("rb") as lines:
                infos = (json.loads(x)["commitInfo"] for x in lines if x.startswith(b'{"commitInfo"'))
                read.infos[path, number] = {**next(infos, {}), "version": number}
        yield read.infos[path, number]


def commit_metadata_of(commit: dict[str, Any]) -> dict[str, Any]:
    """Return the engine's metadata of a commit, empty for a commit of another writer."""
    try:
        note = json.loads(commit.get("userMetadata") or "{}")
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}


def _refuse_unusable(path: Path) -> None:
    if UNUSABLE.search(str(path)):
        raise UnusablePath(path)


def _type_name(kind: Any) -> str:
    if isinstance(kind, str):
        return kind
    if kind["type"] == "array":
        return f"array<{_type_name(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_type_name(kind['keyType'])},{_type_name(kind['valueType'])}>"
    return f"struct<{','.join(f['name'] + ':' + _type_name(f['type']) for f in kind['fields'])}>"
