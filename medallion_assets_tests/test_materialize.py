"""A chain materialized by Dagster: metadata, checks and gates as the UI will show them."""

import dagster as dg
import pytest

from medallion_assets.definitions import defs
from medallion_assets.simulators import land

pytestmark = pytest.mark.spark


@pytest.fixture
def chain(lake, spark):
    def run():
        with dg.DagsterInstance.ephemeral() as instance:
            job = defs.resolve_job_def("school_chain")
            done = job.execute_in_process(instance=instance, raise_on_error=False)
            return done, done.get_asset_materialization_events()

    return run


def test_one_run_takes_files_to_gold_and_says_so_in_metadata(chain, lake):
    land("school", lake.settings.landing, 1, with_faults=True)
    done, events = chain()
    assert done.success
    shown = {e.asset_key.to_user_string(): e.materialization.metadata for e in events}
    silver = shown["school/silver/enrollments"]
    assert silver["dagster/row_count"].value == 1000
    assert silver["rows_quarantined"].value == 3
    assert [c.name for c in silver["dagster/column_schema"].value.columns][:2] == ["enroll_id", "quantity"]
    assert "data:image/svg+xml" in silver["last_batches"].value
    head, _, newest, *_ = silver["history"].value.splitlines()
    assert head == "| version | time | operation | rows_written | batch | run |"
    version, _, operation, written, position, run = newest.strip("| ").split(" | ")
    assert (version, operation, written, position) == ("0", "WRITE", "1000", "0")
    assert run == done.run_id
    gold = shown["school/gold/daily_student_courses"]
    assert gold["state_bytes"].value > 0
    assert [gold[name].value for name in ("watermark", "late_rows")] == ["none", 0]
    assert gold["open_groups"].value == gold["dagster/row_count"].value > 100
    assert shown["school/quarantine/silver_enrollments"]["dagster/row_count"].value == 3


def test_checks_tell_what_broke_and_only_gates_can_block(chain, lake):
    land("school", lake.settings.landing, 1, with_faults=True)
    done, _ = chain()
    found = {(e.asset_key.to_user_string(), e.check_name): e for e in done.get_asset_check_evaluations()}
    positive = found["school/silver/enrollments", "positive_quantity"]
    assert (positive.passed, positive.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert positive.metadata["failed"].value == 2
    gates = [e for (_, name), e in found.items() if name in ("conservation", "unique_keys")]
    # Seven tables are balanced; enrollments and students also name each row once.
    assert len(gates) == 9
    assert all(e.passed and e.blocking for e in gates)


def test_a_row_that_vanished_fails_the_gate_and_keeps_downstream_from_running(chain, lake, spark):
    land("school", lake.settings.landing, 1)
    assert chain()[0].success
    spark.sql(f"DELETE FROM delta.`{lake.root / 'school/bronze/enrollments'}` WHERE enroll_id LIKE '%7'")
    land("school", lake.settings.landing, 1)
    done, events = chain()
    assert not done.success
    written = {e.asset_key.to_user_string() for e in events}
    assert "school/bronze/enrollments" in written
    assert "school/silver/enrollments" not in written


def test_a_verb_runs_from_the_launchpad_dry_by_default_and_for_good_when_told(chain, lake, rows_of):
    land("school", lake.settings.landing, 1, with_faults=True)
    chain()

    def replayed(**told):
        asked = {"tables": ["school/silver/enrollments"], "fix": "quantity = 1", **told}
        job = defs.resolve_job_def("replay")
        with dg.DagsterInstance.ephemeral() as instance:
            config = {"ops": {"do_replay": {"config": asked}}}
            done = job.execute_in_process(run_config=config, instance=instance)
        return next(e for e in done.all_events if e.event_type_value == "ASSET_OBSERVATION")

    held = "SELECT count(*) AS n FROM t WHERE status = 'open'"
    quarantine = "school/quarantine/silver_enrollments"
    before = rows_of(quarantine, held)
    foreseen = replayed().asset_observation_data.asset_observation.metadata["replay"].value
    assert "would be judged again" in foreseen
    assert rows_of(quarantine, held) == before
    replayed(dry_run=False, rules=["positive_quantity"])
    assert rows_of(quarantine, held)[0]["n"] < before[0]["n"]
