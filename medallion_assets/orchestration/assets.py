"""A ``Table`` as Dagster assets and checks, and the asset that shows the whole lake."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import dagster as dg
from pyspark.sql import SparkSession

from medallion_assets.declare.pipeline import Pipeline, chosen
from medallion_assets.declare.table import Table
from medallion_assets.declare.triggers import timing_of
from medallion_assets.lake.code_version import code_version
from medallion_assets.lake.paths import Lake, quarantine_name
from medallion_assets.orchestration import metadata as report
from medallion_assets.orchestration.resources import LakeResource, SparkResource
from medallion_assets.quality.verdicts import (
    CONSERVATION,
    FILES,
    LATE,
    OFFSETS,
    RESCUED,
    SCHEMA,
    UNIQUE,
    VALUES,
    Verdict,
    conservation,
    facts,
    offsets_conserved,
    set_rule,
    unique_keys,
    values_conserved,
)
from medallion_assets.reports import statuses
from medallion_assets.runs.run import Refresh, nothing_loaded, refresh
from medallion_assets.runtime.failures import failure_text, passes_by_itself
from medallion_assets.sources.errors import seconds_of

RETRIES, RETRY_SECONDS = 2, 30.0


def asset_key(table: Table) -> dg.AssetKey:
    """Return the table's asset key, ``pipeline/layer/name``."""
    return dg.AssetKey([table.pipeline, table.layer, table.name])


def step_name(table: Table) -> str:
    """Return the name of the step that refreshes the table, and of its pool."""
    return table.key.replace("/", "__")


def quarantine_key(table: Table) -> dg.AssetKey:
    """Return the key of the table's quarantine."""
    return dg.AssetKey([table.pipeline, "quarantine", quarantine_name(table)])


def landing_key(table: Table) -> dg.AssetKey:
    """Return the key of the landing zone a bronze table reads."""
    assert table.source is not None
    return dg.AssetKey([table.pipeline, "landing", table.source.name])


class RunConfig(dg.Config):
    """How a table takes what is new: ``trigger`` is ``availableNow`` or ``once``; empty for its own."""

    trigger: str = ""


def as_asset(table: Table) -> dg.AssetsDefinition:
    """Return the asset whose materialization refreshes the table."""

    # The inner function has its own signature: with functools.wraps, Dagster would take the query's
    # parameters for asset inputs.
    def materialize(
        context: dg.AssetExecutionContext, config: RunConfig, lake: LakeResource, spark: SparkResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        yield _materialized(table, context, lake, spark, config.trigger)

    return dg.multi_asset(
        name=step_name(table),
        specs=[_spec(table)],
        check_specs=[dg.AssetCheckSpec(name, asset=asset_key(table)) for name in _inline_checks(table)],
        pool=step_name(table),
    )(materialize)


def external_specs(pipeline: Pipeline) -> list[dg.AssetSpec]:
    """Return the landing zones and quarantines: seen and browsed in Dagster, not run by it."""
    # Several tables may read one landing zone.
    zones = {landing_key(t): _landing(t) for t in pipeline.tables.values() if t.source}
    landing = list(zones.values())
    quarantines = [_quarantine(t) for t in pipeline.tables.values() if t.refuses or t.watermarked]
    return landing + quarantines


def _materialized(
    table: Table,
    context: dg.AssetExecutionContext,
    lake: LakeResource,
    spark: SparkResource,
    trigger: str = "",
) -> dg.MaterializeResult[None]:
    place = lake.lake()
    done = _refreshed(table, place, spark.starter(), context.run.run_id, trigger)
    if done.total("quarantined"):
        metadata = report.quarantine(table, place, done)
        context.log_event(dg.AssetMaterialization(quarantine_key(table), metadata=metadata))
    error = nothing_loaded(table, place, done)
    if error:
        raise dg.Failure(description=error, allow_retries=False)
    found = facts(table, place)
    return dg.MaterializeResult(
        asset_key=asset_key(table),
        metadata=report.refreshed(table, place, done),
        data_version=dg.DataVersion(str(done.version)),
        check_results=[report.check_result(verdict, asset_key(table)) for verdict in found],
    )


def _refreshed(
    table: Table, lake: Lake, spark: Callable[[], SparkSession], run_id: str, trigger: str
) -> Refresh:
    """Refresh the table; an error that may pass by itself is retried a few times, others fail the step."""
    try:
        return refresh(table, lake, spark, run_id, timing_of(trigger or table.trigger).batches)
    except Exception as error:
        if passes_by_itself(error):
            raise dg.RetryRequested(max_retries=RETRIES, seconds_to_wait=RETRY_SECONDS) from error
        # Without the cause: Dagster would print its stack, of hundreds of lines of Java, into every log.
        raise dg.Failure(description=failure_text(table, lake, error), allow_retries=False) from None


def _inline_checks(table: Table) -> list[str]:
    source = table.source
    names = [FILES] if source else []
    names += [SCHEMA] if source and source.learns else []
    names += [RESCUED] if source and source.rescued else []
    names += [LATE] if table.watermarked else []
    names += [rule.name for rule in table.set_rules if rule.on_violation == "warn"]
    return [*names, *(e.name for e in table.expectations)]


def _spec(table: Table) -> dg.AssetSpec:
    deps = [asset_key(up) for up in table.upstream] + ([landing_key(table)] if table.source else [])
    return dg.AssetSpec(
        asset_key(table),
        deps=deps,
        description="\n\n".join([table.description, *(f"Warning: {w}." for w in table.query_warnings)]),
        group_name=table.pipeline,
        kinds={table.layer, "deltalake", "pyspark"},
        owners=list(table.owners),
        freshness_policy=_freshness(table),
        code_version=code_version(table),
        metadata={
            "dagster/table_name": table.key.replace("/", "."),
            "output_mode": table.output_mode,
            "expectations": dg.MetadataValue.md(report.expectations_table(table)),
            "lineage": dg.MetadataValue.md(report.lineage(table)),
            **_code_reference(table),
        },
    )


def _freshness(table: Table) -> dg.FreshnessPolicy | None:
    """Return the policy that Dagster's freshness daemon looks after, None where any age will do."""
    if not table.fresh_within:
        return None
    return dg.FreshnessPolicy.time_window(timedelta(seconds=seconds_of(table.fresh_within)))


def _landing(table: Table) -> dg.AssetSpec:
    assert table.source is not None
    words = f"{table.source.format.upper()} files as they land."
    kinds = {"file", table.source.format}
    return dg.AssetSpec(landing_key(table), description=words, group_name=table.pipeline, kinds=kinds,
                        owners=list(table.owners))  # fmt: skip


def _quarantine(table: Table) -> dg.AssetSpec:
    words = f"Rows {table.key} could not take, each with every rule it broke and where it came from."
    return dg.AssetSpec(
        quarantine_key(table),
        deps=[asset_key(table)],
        description=words,
        group_name=table.pipeline,
        kinds={"deltalake", "table"},
        owners=list(table.owners),
    )


def _code_reference(table: Table) -> dict[str, dg.CodeReferencesMetadataValue]:
    file, _, line = table.declared_at.rpartition(":")
    with warnings.catch_warnings():
        # Beta in Dagster 1.13: the warning is for us, and would stand a dozen times in every user's log.
        warnings.simplefilter("ignore", dg.BetaWarning)
        source = dg.LocalFileCodeReference(file_path=str(Path(file)), line_number=int(line))
        return {"dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[source])}


GATES: dict[str, Callable[..., Verdict]] = {
    CONSERVATION: conservation,
    VALUES: values_conserved,
    OFFSETS: offsets_conserved,
    UNIQUE: unique_keys,
}


def gates(table: Table) -> dg.AssetChecksDefinition:
    """Return the table's blocking checks, as one step; each reads logs only and starts no Spark."""
    names = [CONSERVATION, *([VALUES] if table.source else []), *([UNIQUE] if table.named_once_by else [])]
    names += [OFFSETS] if table.source and table.source.kafka else []
    names += [rule.name for rule in table.set_rules if rule.on_violation == "fail"]
    key = asset_key(table)
    specs = [dg.AssetCheckSpec(name, asset=key, blocking=True, description=_words(name)) for name in names]

    # Not in the asset's own step: a failure there would read as if rows were not in. One step for all of
    # them: a step of its own costs each check three events and 0.1 s.
    @dg.multi_asset_check(name=f"{step_name(table)}__gates", specs=specs, can_subset=True)
    def gate(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> Iterator[dg.AssetCheckResult]:
        place = lake.lake()
        for name in sorted(asked.name for asked in context.selected_asset_check_keys):
            yield report.check_result(_verdict(table, name, place), key)

    return gate


def _words(name: str) -> str:
    return GATES.get(name, set_rule).__doc__ or ""


def _verdict(table: Table, name: str, lake: Lake) -> Verdict:
    if name in GATES:
        return GATES[name](table, lake)
    (rule,) = (rule for rule in table.set_rules if rule.name == name)
    return set_rule(rule, table, lake)


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
