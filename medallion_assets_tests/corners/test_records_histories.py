"""Random histories of landings, runs, crashes, repairs and verbs leave every table as plain Python says.

A failure prints the seed and the steps; ``histories(seed)`` with that seed is the same history again.
"""

import os
import random

import pytest

from medallion_assets_tests.corners.history_model import Shop, steps_of
from medallion_assets_tests.examples import seldom

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


@pytest.mark.parametrize(("seed", "disturbed"), [seldom(7, False), (9, True)])
def test_a_short_history_leaves_every_table_as_its_files_and_verbs_make_it(
    lakehouse, medallion_spark, seed, disturbed
):
    live_through(lakehouse, medallion_spark, seed, 5, disturbed)


@pytest.mark.thorough
@pytest.mark.parametrize("disturbed", [False, True], ids=["verbs", "lost, aged and moved state"])
@pytest.mark.parametrize("seed", range(SEED, SEED + MANY))
def test_a_long_history_leaves_every_table_as_its_files_and_verbs_make_it(
    lakehouse, medallion_spark, seed, disturbed
):
    live_through(lakehouse, medallion_spark, seed, 25, disturbed)
