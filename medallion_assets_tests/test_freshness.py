"""How fresh a table has to be is declared with it, and is a freshness policy of Dagster's on its asset."""

from datetime import timedelta

import pytest

from medallion_assets import Pipeline
from medallion_assets.declare.errors import DeclarationError
from medallion_assets.lake.code_version import code_version
from medallion_assets.orchestration.assets import as_asset, asset_key


def orders(fresh_within=""):
    shop = Pipeline("shop")

    @shop.bronze(fresh_within=fresh_within)
    def orders(files=shop.landing("orders", format="json")):  # noqa: B008
        """One row per order."""
        return files

    return orders


def policy(table):
    return as_asset(table).get_asset_spec(asset_key(table)).freshness_policy


def test_a_table_that_says_so_has_a_policy_and_others_have_none():
    assert policy(orders("90 minutes")).fail_window.to_timedelta() == timedelta(minutes=90)
    assert policy(orders()) is None


@pytest.mark.parametrize(
    ("said", "words"),
    [("soon", "is not a duration"), ("30s", "shorter than 60 seconds"), ("-1 day", "is not a")],
)
def test_what_dagster_cannot_look_after_is_refused_as_it_loads(said, words):
    with pytest.raises(DeclarationError, match=words):
        orders(said)


def test_it_says_nothing_of_the_rows_so_the_code_version_stays():
    assert code_version(orders("1 day")) == code_version(orders("2 days"))
