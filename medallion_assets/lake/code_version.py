"""Which code made a table: a short name for its query and rules, the same in every process."""

import hashlib
import inspect

from medallion_assets.declare.table import Table
from medallion_assets.delta.batches import newest_flows
from medallion_assets.lake.paths import Lake


def code_version(table: Table) -> str:
    """Return twelve letters that change with the query's source, its rules, keys or output mode."""
    rules = [(e.name, e.predicate, e.on_violation) for e in table.expectations]
    told = (_source(table), rules, table.unique_by, table.output_mode, str(table.scd))
    # hash() differs in every process.
    return hashlib.sha256(repr(told).encode()).hexdigest()[:12]


def committed_code(table: Table, lake: Lake) -> str | None:
    """Return the code version the table's newest commits were made by; None where none says so."""
    found = newest_flows(lake.path(table)).get(table.flow, {}).get("code")
    return None if found is None else str(found)


def _source(table: Table) -> str:
    try:
        return inspect.getsource(table.query)
    except OSError:
        # Typed into a shell: the source is nowhere.
        return table.query.__code__.co_code.hex()
