"""What several tests of tables ask for."""

import pytest

from medallion_assets.quality.conservation import balance
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.replay.replay import replay


@pytest.fixture
def replayed(lake, spark):
    def run(table, choice=QuarantineFilter(), fix="", **more):  # noqa: B008
        done = replay(table, lake, spark, choice, fix, **more)
        books = balance(table, lake)
        assert books.holds, str(books)
        return done

    return run
