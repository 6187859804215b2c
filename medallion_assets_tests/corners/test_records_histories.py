"""Random histories of landings, runs, crashes, repairs and verbs leave every table as plain Python says.

A failure prints the seed and the steps; ``histories(seed)`` with that seed is the same history again.
"""

import os
import random

import pytest

from medallion_assets_tests.corners.history_model import Shop, steps_of

pytestmark = pytest.mark.spark
SEED = int(os.environ.get("MEDALLION_HISTORY_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
MANY = int(os.environ.get("MEDALLION_HISTORIES", "30"))


def live_through(lakehouse, spark, seed, length, disturbed=False):
    """Do a history, and at its end take in all that is still new."""
    shop, done = Shop(lakehouse, spark, seed), []
    try:
        for step in steps_of(seed, length, disturbed):
            done.append(tuple(step))
            shop.do(step)
        shop.run()
    except Exception as error:
        raise AssertionError(f"seed {seed}, {shop.model.mode}, after {done}: {error}") from error


# Open: where a run dies after a replay with a fix, an entry that stays held may get a new id.
OPEN = pytest.param(7, marks=pytest.mark.xfail(reason="an entry's id changes when the run after a fix dies"))


@pytest.mark.parametrize("seed", [OPEN, 9])
def test_a_short_history_leaves_every_table_as_its_files_and_verbs_make_it(lakehouse, medallion_spark, seed):
    live_through(lakehouse, medallion_spark, seed, 5)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(SEED, SEED + MANY))
def test_a_long_history_leaves_every_table_as_its_files_and_verbs_make_it(lakehouse, medallion_spark, seed):
    live_through(lakehouse, medallion_spark, seed, 25)
