"""Runs outside of Dagster, reported to its instance as materializations and check evaluations."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from medallion_assets.lake.paths import Lake
from medallion_assets.runs.run import Outcome

if TYPE_CHECKING:
    import dagster as dg


def announced(outcome: Outcome, lake: Lake, latency_seconds: float | None = None) -> int:
    """Report an outcome's micro-batches and checks to the Dagster instance that ``DAGSTER_HOME`` names.

    Without ``DAGSTER_HOME`` nothing is reported and Dagster is not imported, which takes two seconds.

    Returns:
        The number of micro-batches reported.
    """
    done = outcome.refresh
    if not os.environ.get("DAGSTER_HOME") or done is None or not done.batches:
        return 0
    import dagster as dg

    with dg.DagsterInstance.get() as instance:
        for event in materializations(outcome, lake, latency_seconds):
            instance.report_runless_asset_event(event)
        for check in _checks(outcome):
            instance.report_runless_asset_event(check)
    return len(done.batches)


def materializations(
    outcome: Outcome, lake: Lake, latency_seconds: float | None
) -> "Iterator[dg.AssetMaterialization]":
    """Return a materialization for each micro-batch of an outcome."""
    import dagster as dg

    from medallion_assets.orchestration import metadata as report
    from medallion_assets.orchestration.assets import asset_key, quarantine_key

    table, done = outcome.table, outcome.refresh
    for batch in done.batches if done else ():
        metadata = report.micro_batch(table, lake, batch, latency_seconds)
        yield dg.AssetMaterialization(asset_key(table), metadata=metadata)
    if done and done.total("quarantined"):
        yield dg.AssetMaterialization(quarantine_key(table), metadata=report.quarantine(table, lake, done))


def _checks(outcome: Outcome) -> "Iterator[dg.AssetCheckEvaluation]":
    """Return an evaluation for each check of the table."""
    import dagster as dg

    from medallion_assets.orchestration.assets import asset_key

    for verdict in outcome.verdicts:
        yield dg.AssetCheckEvaluation(
            asset_key=asset_key(outcome.table),
            check_name=verdict.name,
            passed=verdict.passed,
            metadata=verdict.numbers,
            severity=dg.AssetCheckSeverity.ERROR if verdict.blocking else dg.AssetCheckSeverity.WARN,
            description=verdict.words,
            blocking=verdict.blocking,
        )
