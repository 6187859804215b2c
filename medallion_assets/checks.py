"""Gates: checks on a table as it stands, which keep a failure from going downstream."""

import dagster as dg

from medallion_assets import report
from medallion_assets.resources import LakeResource
from medallion_assets.tables.lake import Lake
from medallion_assets.tables.table import Table
from medallion_assets.tables.verdicts import CONSERVATION, UNIQUE, Verdict, conservation, unique_keys
from medallion_assets.translate import asset_key

GATES = {CONSERVATION: conservation, UNIQUE: unique_keys}


def gates(table: Table) -> list[dg.AssetChecksDefinition]:
    """Gives the table's blocking checks; each reads logs only and starts no Spark."""
    names = [CONSERVATION, *([UNIQUE] if table.named_once_by else [])]
    return [_gate(table, name) for name in names]


def _gate(table: Table, name: str) -> dg.AssetChecksDefinition:
    # Standalone and not in the asset's own step: a failure there would read as if rows were not in.
    @dg.asset_check(asset=asset_key(table), name=name, blocking=True, description=GATES[name].__doc__)
    def gate(lake: LakeResource) -> dg.AssetCheckResult:
        return report.check_result(_verdict(table, name, lake.lake()), asset_key(table))

    return gate


def _verdict(table: Table, name: str, lake: Lake) -> Verdict:
    return GATES[name](table, lake)
