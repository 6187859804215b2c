"""The asset beside the chains: the whole lake at a glance, recomputed when a gold table has changed."""

import dagster as dg

from medallion_assets.declare.order import chosen
from medallion_assets.orchestration.assets import asset_key
from medallion_assets.orchestration.resources import LakeResource
from medallion_assets.pipelines import PIPELINES
from medallion_assets.reports import statuses

GOLD = [asset_key(t) for p in PIPELINES.values() for t in p.tables.values() if t.layer == "gold"]


@dg.asset(
    key=["report", "lake_status"],
    deps=GOLD,
    group_name="report",
    kinds={"table"},
    owners=["team:lakehouse"],
    automation_condition=dg.AutomationCondition.any_deps_updated()
    & ~dg.AutomationCondition.any_deps_in_progress(),
)
def lake_status(lake: LakeResource) -> dg.MaterializeResult[None]:
    """One row per table of the lake: its version, rows, quarantine and checks."""
    found = statuses(chosen(PIPELINES), lake.lake())
    head = "| table | version | rows | quarantined | checks not passed |\n|---|---|---|---|---|"
    lines = [
        f"| {s['pipeline']}/{s['layer']}/{s['table']} | {s['version']} | {s['rows']} | {s['quarantined']} | "
        f"{', '.join(k for k, v in s['checks'].items() if v != 'passed')} |"
        for s in found
    ]
    return dg.MaterializeResult(
        metadata={
            "tables": dg.MetadataValue.md("\n".join([head, *lines])),
            "rows": sum(s["rows"] for s in found),
            "quarantined": sum(s["quarantined"] for s in found),
        }
    )
