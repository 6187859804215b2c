"""The asset beside the chains: the whole lake at a glance, refreshed when a gold table has changed."""

from collections.abc import Mapping

import dagster as dg

from medallion_assets.declare.order import chosen
from medallion_assets.declare.pipeline import Pipeline
from medallion_assets.orchestration.assets import asset_key
from medallion_assets.orchestration.resources import LakeResource
from medallion_assets.reports import statuses


def lake_status(pipelines: Mapping[str, Pipeline]) -> dg.AssetsDefinition:
    """Return the asset ``report/lake_status`` over every table of these pipelines."""
    owners = sorted({owner for pipeline in pipelines.values() for owner in pipeline.owners})

    @dg.asset(
        key=["report", "lake_status"],
        deps=[asset_key(t) for p in pipelines.values() for t in p.tables.values() if t.layer == "gold"],
        group_name="report",
        kinds={"table"},
        owners=owners,
        description="One row per table of the lake: its version, rows, quarantine and checks.",
        automation_condition=dg.AutomationCondition.any_deps_updated()
        & ~dg.AutomationCondition.any_deps_in_progress(),
    )
    def lake_status(lake: LakeResource) -> dg.MaterializeResult[None]:
        found = statuses(chosen(pipelines), lake.lake())
        head = "| table | version | rows | quarantined | checks not passed |\n|---|---|---|---|---|"
        lines = [
            f"| {s['pipeline']}/{s['layer']}/{s['table']} | {s['version']} | {s['rows']} "
            f"| {s['quarantined']} | {', '.join(k for k, v in s['checks'].items() if v != 'passed')} |"
            for s in found
        ]
        return dg.MaterializeResult(
            metadata={
                "tables": dg.MetadataValue.md("\n".join([head, *lines])),
                "rows": sum(s["rows"] for s in found),
                "quarantined": sum(s["quarantined"] for s in found),
            }
        )

    return lake_status
