"""Which failures a run tries again: those that may pass by themselves, a few times, and no others."""

import dagster as dg
import pytest

from medallion_assets.declare.errors import ExpectationFailed, RefreshFailed
from medallion_assets.orchestration import assets as translate
from medallion_assets.orchestration.resources import LakeResource, SparkResource
from medallion_assets.pipelines.school import bronze
from medallion_assets.runs.run import Refresh
from medallion_assets.runtime.failures import passes_by_itself
from medallion_assets.storage.lease import TableBusy


@pytest.fixture
def tries(lake, monkeypatch):
    """Return how often a materialization was tried that fails so often with an error."""

    def materialized(error, failures):
        made = []

        def refresh(table, *_):
            made.append(table)
            if len(made) <= failures:
                raise error
            return Refresh(table.key, "nothing new", (), None, 0.0, "run")

        monkeypatch.setattr(translate, "refresh", refresh)
        monkeypatch.setattr(translate, "RETRY_SECONDS", 0.0)
        resources = {"lake": LakeResource(), "spark": SparkResource()}
        done = dg.materialize([translate.as_asset(bronze.courses)], resources=resources, raise_on_error=False)
        return len(made), done.success

    return materialized


def test_another_writer_is_waited_for_and_the_run_goes_on(tries):
    assert tries(TableBusy("held"), failures=2) == (3, True)


def test_what_does_not_pass_is_tried_a_few_times_only(tries):
    assert tries(ConnectionResetError("gone"), failures=99) == (3, False)


@pytest.mark.parametrize("error", [ExpectationFailed("a rule"), RefreshFailed("a cast"), ValueError("code")])
def test_what_another_try_cannot_mend_is_tried_once(tries, error):
    assert tries(error, failures=99) == (1, False)


def test_the_cause_decides_whatever_it_was_wrapped_in():
    wrapped = RefreshFailed("the micro-batch failed")
    wrapped.__cause__ = RuntimeError("java.net.SocketTimeoutException: Read timed out")
    assert passes_by_itself(wrapped)
    assert not passes_by_itself(RefreshFailed("the micro-batch failed"))
