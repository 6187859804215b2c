"""Check the rules of a table as a whole, from its log and the columns concerned."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from medallion_assets.declare.expectations import SetRule
from medallion_assets.declare.table import Table
from medallion_assets.delta import batches, log
from medallion_assets.delta.changes import new_files
from medallion_assets.lake.paths import Lake

EARLIER = 3
"""Batches there must be before one is compared with them."""

SHOWN = 5
TOTAL, TIMES, PRINT = "__medallion_total", "__medallion_times", "__medallion_print"

MOST_GROUPED = 2_000_000
"""Keys that are grouped in memory, which takes some 70 bytes and more for each."""

BITS = 1 << 29
"""Bits in the bitmap of fingerprints: 64 MiB. Of ten million distinct keys, 1 % look repeated."""

PLAIN = re.compile(r"string|byte|short|integer|long|boolean|date|timestamp|decimal")
"""Types whose equal values have equal texts."""

Prints = np.ndarray[Any, np.dtype[np.uint64]]

Answer = tuple[bool, str, dict[str, Any]]
"""Whether the rule holds, a message, and the numbers."""


def answer_of(rule: SetRule, table: Table, lake: Lake) -> Answer:
    """Return the rule's result for the table."""
    if rule.kind == "unique":
        return _unique(rule, lake.path(table))
    if rule.kind == "references":
        return _references(rule, lake.path(table), lake.path(rule.other))
    if rule.kind == "row_count":
        recorded = [batch for path in lake.histories(table) for batch in batches.recorded(path, table.flow)]
        return _row_count(rule, [batch.read for batch in recorded if batch.read > 0])
    return _null_rate(rule, lake.path(table))


def repeated_keys(columns: Sequence[str], path: Path) -> tuple[int, list[dict[str, Any]]]:
    """Return how many keys are in a table more than once, and some of them with their number of rows.

    Grouping takes memory for each key. In a large table, a bitmap of fixed size first finds the fingerprints
    that may be repeated, and only keys with such a fingerprint are grouped.
    """
    kinds = [kind for name, kind in log.schema(path) if name in columns]
    if log.row_count(path) > MOST_GROUPED and all(PLAIN.match(kind) for kind in kinds):
        with suppress(DeltaError):
            return _repeated_by_fingerprint(columns, path)
    keys = ", ".join(f'"{c}"' for c in columns)
    twice = f"SELECT {keys}, count(*) AS {TIMES} FROM t GROUP BY {keys} HAVING count(*) > 1"
    return _sampled(path, twice, "count(*)")


def _repeated_by_fingerprint(columns: Sequence[str], path: Path) -> tuple[int, list[dict[str, Any]]]:
    keys = ", ".join(f'"{c}"' for c in columns)
    texts = ", '|', ".join(f"coalesce(CAST(\"{c}\" AS VARCHAR), '')" for c in columns)
    prints = f"digest(concat({texts}, '|'), 'md5') AS {PRINT}"
    seen, twice = np.zeros(BITS >> 3, np.uint8), []
    for batch in log.batches(path, f"SELECT {prints} FROM t"):
        found = np.sort(_fingerprints(batch))
        at = found % BITS
        byte, bit = (at >> 3).astype(np.int64), np.left_shift(1, at & 7).astype(np.uint8)
        is_known = seen[byte] & bit > 0
        is_known[1:] |= found[1:] == found[:-1]
        np.bitwise_or.at(seen, byte, bit)
        twice.append(found[is_known])
    maybe = np.unique(np.concatenate(twice))
    rows = (
        batch.filter(pa.array(_are_among(_fingerprints(batch), maybe))).select(list(columns))
        for batch in log.batches(path, f"SELECT {keys}, {prints} FROM t")
    )
    # Pyarrow's grouping takes a name that begins with . or [ for a path into another column.
    places = [f"c{number}" for number in range(len(columns))]
    found = pa.Table.from_batches(rows).rename_columns(places)
    counted = found.group_by(places).aggregate([([], "count_all")])
    counted = counted.rename_columns([*columns, TIMES])
    repeated = counted.filter(pc.greater(counted.column(TIMES), 1))
    return len(repeated), _shown(repeated.slice(0, SHOWN).to_pylist())


def _are_among(found: Prints, known: Prints) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Return for each fingerprint whether a sorted array contains it."""
    at = np.searchsorted(known, found)
    return known[np.minimum(at, len(known) - 1)] == found if len(known) else np.zeros(len(found), bool)


def _fingerprints(batch: pa.RecordBatch) -> Prints:
    """Return the first eight bytes of each row's digest, which has sixteen."""
    digests = batch.column(PRINT)
    whole = np.frombuffer(digests.buffers()[2], np.uint64, 2 * len(digests), 16 * digests.offset)
    return whole[::2]


def _sampled(path: Path, failures: str, summed: str, **registered: Path) -> tuple[int, list[dict[str, Any]]]:
    """Return a sum over the rows of a query, and a few of these rows."""
    sql = f"SELECT *, {summed} OVER () AS {TOTAL} FROM ({failures}) AS failures LIMIT {SHOWN}"
    found = log.rows(path, sql, **registered)
    return sum(row[TOTAL] for row in found[:1]), _shown(found)


def _shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with their number of occurrences as ``n``, without the engine's own columns."""
    ours = (TOTAL, TIMES)
    return [{n: v for n, v in row.items() if n not in ours} | {"n": row[TIMES]} for row in rows]


def _unique(rule: SetRule, path: Path) -> Answer:
    twice, sample = repeated_keys(rule.columns, path)
    return not twice, f"{twice} keys are there more than once", {"failed": twice, "sample": str(sample)}


def _references(rule: SetRule, path: Path, other: Path) -> Answer:
    (column,) = rule.columns
    known = f'SELECT "{column}" FROM o WHERE "{column}" IS NOT NULL'
    lost = f'SELECT "{column}" AS value, count(*) AS {TIMES} FROM t WHERE "{column}" IS NULL'
    if log.exists(other):
        lost += f' OR "{column}" NOT IN ({known})'
    else:
        lost = f'SELECT "{column}" AS value, count(*) AS {TIMES} FROM t'
    others = {"o": other} if log.exists(other) else {}
    failed, sample = _sampled(path, f'{lost} GROUP BY "{column}"', f"sum({TIMES})", **others)
    return not failed, f"{failed} rows refer to nothing", {"failed": failed, "sample": str(sample)}


def _row_count(rule: SetRule, reads: list[int]) -> Answer:
    last, before = (reads[-1] if reads else 0), reads[:-1]
    usual = median(before) if len(before) >= EARLIER else last
    holds = abs(last - usual) <= rule.drift * usual
    return (
        holds,
        f"{last} rows in the last batch, {usual:g} is usual",
        {"rows_written": last, "usual": float(usual)},
    )


def _null_rate(rule: SetRule, path: Path) -> Answer:
    (column,) = rule.columns
    whole = log.rows(path, f'SELECT count(*) AS n, count("{column}") AS there FROM t')
    rows, there = (whole[0]["n"], whole[0]["there"]) if whole else (0, 0)
    new_rows, new_nulls = _newest(path, column)
    old_rows = rows - new_rows
    usual = (rows - there - new_nulls) / old_rows if old_rows > 0 else 0.0
    rate = new_nulls / new_rows if new_rows else 0.0
    holds = old_rows <= 0 or rate <= usual + rule.drift
    words = f"{100 * rate:.1f} % of the last commit's {column} are NULL, {100 * usual:.1f} % before it"
    return holds, words, {"percent": round(100 * rate, 3), "usual_percent": round(100 * usual, 3)}


def _newest(path: Path, column: str) -> tuple[int, int]:
    """Return rows and NULLs the newest commit added, from its statistics."""
    actions = log.actions(path, log.version(path) or 0) or []
    stats = [json.loads(file.get("stats") or "{}") for file in new_files(actions)]
    nulls = sum(int(s.get("nullCount", {}).get(column, 0)) for s in stats)
    return sum(int(s.get("numRecords", 0)) for s in stats), nulls
