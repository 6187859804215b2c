"""A few rows that broke a rule: where they are, and what is in them where that is asked for."""

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.names import literal
from medallion_assets.lake.paths import Lake
from medallion_assets.sources.quarantine import OPEN

PLACES = 3
LONGEST = 200
"""Characters of a row that are shown."""


def sample_of(rule: str, table: Table, lake: Lake) -> str:
    """Return the newest open entries of a rule, a line each; their rows only where ``sample_rows`` says so.

    What checks show is kept in Dagster's event storage, and rows may hold what must not be there.
    """
    shown = lake.settings.sample_rows
    mine = f"status = {literal(OPEN)} AND array_has(rules, {literal(rule)})"
    newest = f"ORDER BY quarantined_at DESC, entry_id LIMIT {max(shown, PLACES)}"
    found = log.rows(lake.quarantine(table), f"SELECT * FROM t WHERE {mine} {newest}")
    return "\n".join(_line(entry, number < shown) for number, entry in enumerate(found))


def _line(entry: dict[str, object], in_full: bool) -> str:
    place = " ".join(str(entry[name]) for name in ("source_file", "position") if entry.get(name))
    told = f"{str(entry['entry_id'])[:8]} {place}".strip()
    return f"{told}: {str(entry['row'])[:LONGEST]}" if in_full else told
