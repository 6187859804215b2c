"""Rules of a table as a whole, judged from logs alone: each holds, and fails once its cause is planted."""

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from medallion_assets.declare import Pipeline, null_rate, references, row_count, stream, unique
from medallion_assets.declare.errors import DeclarationError
from medallion_assets.delta.batches import Batch
from medallion_assets.quality.verdicts import set_rule, verdicts
from medallion_assets_tests.shop import commit_batch


def shop_with(*rules):
    shop = Pipeline("shop")

    @shop.bronze()
    def customers(files=shop.landing("customers", format="json", schema="customer STRING")):  # noqa: B008
        """One row per customer."""
        return files

    made = [rule(customers) if callable(rule) else rule for rule in rules]

    @shop.silver(expectations=made)
    def sales(customers=stream(customers)):
        """One row per sale."""
        return customers

    return customers, sales


@pytest.fixture
def holds(lake):
    def judge(tables, sales=None, customers=None):
        for table, commits in zip(tables, (customers, sales), strict=True):
            for rows in commits or []:
                write_deltalake(str(lake.path(table)), pa.Table.from_pylist(rows), mode="append")
        (verdict,) = (set_rule(rule, tables[1], lake) for rule in tables[1].set_rules)
        return verdict

    return judge


def sale(number, customer="a"):
    return {"id": number, "customer": customer}


def test_a_repeated_key_is_told_with_a_sample_and_taken_nowhere(holds):
    tables = shop_with(unique("one_per_id", "id"))
    assert holds(tables, [[sale(1), sale(2)]]).passed
    found = holds(tables, [[sale(2)]])
    assert not found.passed
    assert "'id': 2" in found.numbers["sample"]


def test_a_reference_to_nothing_is_counted_and_null_is_one(holds):
    tables = shop_with(lambda customers: references("known", "customer", customers, "fail"))
    assert holds(tables, [[sale(1)]], [[{"customer": "a"}]]).passed
    found = holds(tables, [[sale(2, "b"), sale(3, None)]])
    assert (found.passed, found.blocking, found.numbers["failed"]) == (False, True, 2)


def test_a_reference_into_a_table_that_is_not_there_fails(holds):
    tables = shop_with(lambda customers: references("known", "customer", customers))
    assert not holds(tables, [[sale(1)]]).passed


@pytest.mark.parametrize(("last", "passed"), [(100, True), (140, True), (160, False), (40, False)])
def test_a_batch_far_from_the_usual_size_is_told(lake, last, passed):
    _, sales = shop_with(row_count("usual_size", drift=0.5))
    for number, rows in enumerate([100, 90, 110, last]):
        commit_batch(lake, sales, Batch(number, rows, rows, 0))
    assert set_rule(sales.set_rules[0], sales, lake).passed is passed


def test_two_batches_are_too_few_to_compare(lake):
    _, sales = shop_with(row_count("usual_size", drift=0.5))
    for number, rows in enumerate([100, 1]):
        commit_batch(lake, sales, Batch(number, rows, rows, 0))
    assert set_rule(sales.set_rules[0], sales, lake).passed


def test_a_column_that_goes_null_is_told(holds):
    tables = shop_with(null_rate("customers_told", "customer", drift=0.1))
    assert holds(tables, [[sale(n) for n in range(20)], [sale(n) for n in range(10)]]).passed
    found = holds(tables, [[sale(1, None), sale(2)]])
    assert (found.passed, found.numbers["percent"]) == (False, 50.0)


def test_only_a_rule_that_says_fail_blocks_and_each_is_among_the_verdicts(lake):
    tables = shop_with(unique("one_per_id", "id", "fail"), row_count("usual_size", drift=0.5))
    found = {v.name: v.blocking for v in verdicts(tables[1], lake)}
    assert (found["one_per_id"], found["usual_size"]) == (True, False)


@pytest.mark.parametrize("otherwise", ["quarantine", "drop"])
def test_a_table_as_a_whole_cannot_be_quarantined(otherwise):
    with pytest.raises(DeclarationError, match="as a whole"):
        row_count("usual_size", 0.5, otherwise)


def test_a_name_that_stands_twice_is_refused_whichever_kind_it_is():
    with pytest.raises(DeclarationError, match="one is declared twice"):
        shop_with(unique("one", "id"), row_count("one", drift=0.5))
