"""What several tests of tables ask for."""

import pytest

from medallion_assets.tables.checks.conservation import balance
from medallion_assets.tables.quarantine.choice import Choice
from medallion_assets.tables.replaying.replay import replay


@pytest.fixture
def replayed(lake, spark):
    def run(table, choice=Choice(), fix="", **more):  # noqa: B008
        done = replay(table, lake, spark, choice, fix, **more)
        books = balance(table, lake)
        assert books.holds, str(books)
        return done

    return run
