"""Micro-batches that ran outside of Dagster, told to it as materializations: one history for all."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from medallion_assets.run import Outcome
from medallion_assets.tables.lake import Lake

if TYPE_CHECKING:
    import dagster as dg


def announced(outcome: Outcome, lake: Lake, latency_seconds: float | None = None) -> int:
    """Tells Dagster of an outcome's micro-batches; gives how many, 0 where no instance is named.

    The instance is the one ``DAGSTER_HOME`` names. Without it nothing is told, and Dagster, which takes
    more than a second to import, is not even loaded.
    """
    done = outcome.refresh
    if not os.environ.get("DAGSTER_HOME") or done is None or not done.batches:
        return 0
    import dagster as dg

    with dg.DagsterInstance.get() as instance:
        for event in materializations(outcome, lake, latency_seconds):
            instance.report_runless_asset_event(event)
    return len(done.batches)


def materializations(
    outcome: Outcome, lake: Lake, latency_seconds: float | None
) -> "Iterator[dg.AssetMaterialization]":
    """Gives a materialization for each micro-batch of an outcome."""
    import dagster as dg

    from medallion_assets import report
    from medallion_assets.translate import asset_key

    for batch in outcome.refresh.batches if outcome.refresh else ():
        metadata = report.micro_batch(outcome.table, lake, batch, latency_seconds)
        yield dg.AssetMaterialization(asset_key(outcome.table), metadata=metadata)
