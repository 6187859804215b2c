"""Gates: checks on a table as it stands, which keep a failure from going downstream."""

from collections.abc import Callable

import dagster as dg

from medallion_assets.declare.table import Table
from medallion_assets.lake.paths import Lake
from medallion_assets.orchestration import metadata as report
from medallion_assets.orchestration.assets import asset_key
from medallion_assets.orchestration.resources import LakeResource
from medallion_assets.quality.verdicts import (
    CONSERVATION,
    UNIQUE,
    VALUES,
    Verdict,
    conservation,
    set_rule,
    unique_keys,
    values_conserved,
)

GATES: dict[str, Callable[..., Verdict]] = {
    CONSERVATION: conservation,
    VALUES: values_conserved,
    UNIQUE: unique_keys,
}


def gates(table: Table) -> list[dg.AssetChecksDefinition]:
    """Return the table's blocking checks; each reads logs only and starts no Spark."""
    names = [CONSERVATION, *([VALUES] if table.source else []), *([UNIQUE] if table.named_once_by else [])]
    whole = [rule.name for rule in table.set_rules if rule.on_violation == "fail"]
    return [_gate(table, name) for name in (*names, *whole)]


def _gate(table: Table, name: str) -> dg.AssetChecksDefinition:
    # Standalone and not in the asset's own step: a failure there would read as if rows were not in.
    @dg.asset_check(asset=asset_key(table), name=name, blocking=True, description=_words(name))
    def gate(lake: LakeResource) -> dg.AssetCheckResult:
        return report.check_result(_verdict(table, name, lake.lake()), asset_key(table))

    return gate


def _words(name: str) -> str:
    return GATES.get(name, set_rule).__doc__ or ""


def _verdict(table: Table, name: str, lake: Lake) -> Verdict:
    if name in GATES:
        return GATES[name](table, lake)
    (rule,) = (rule for rule in table.set_rules if rule.name == name)
    return set_rule(rule, table, lake)
