"""A declaration that cannot work is refused when it loads, with table, file and line."""

import pytest

from medallion_assets.tables import Pipeline, expect, static, stream
from medallion_assets.tables.declaration.errors import DeclarationError


@pytest.fixture
def shop():
    return Pipeline("shop")


@pytest.fixture
def orders(shop):
    @shop.bronze()
    def orders(files=shop.landing("orders", format="json", schema="id INT")):  # noqa: B008
        """One row per order."""
        return files

    return orders


def declare(layer, reads, **options):
    def rows(a=reads):
        """One row per thing."""
        return a

    return getattr(layer[0], layer[1])(**options)(rows)


def test_a_table_knows_its_key_its_lineage_and_its_description(orders, shop):
    table = declare((shop, "silver"), stream(orders))
    assert (table.key, table.upstream, table.description) == (
        "shop/silver/rows",
        (orders,),
        "One row per thing.",
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"output_mode": "replace"}, "is none of append, update"),
        ({"output_mode": "update"}, "say unique_by"),
        ({"output_mode": "complete"}, "counts_rows"),
        ({"output_mode": "complete", "counts_rows": "n", "unique_by": "id"}, "needs no unique_by"),
        ({"expectations": [expect("a", "1 = 1"), expect("a", "2 = 2")]}, "stands twice"),
    ],
)
def test_options_that_contradict_each_other_are_refused(orders, shop, options, words):
    with pytest.raises(DeclarationError, match=words) as refused:
        declare((shop, "silver"), stream(orders), **options)
    assert "shop/silver/rows" in str(refused.value)
    assert "test_declare.py:" in str(refused.value)


def test_streaming_from_a_table_that_rewrites_itself_is_refused(orders, shop):
    @shop.silver(output_mode="complete", counts_rows="n")
    def totals(a=stream(orders)):
        """One row per total."""
        return a

    with pytest.raises(DeclarationError, match="rewrites itself"):
        declare((shop, "gold"), stream(totals))


def test_two_streams_or_none_are_refused(orders, shop):
    with pytest.raises(DeclarationError, match="exactly one stream"):
        declare((shop, "silver"), static(orders))


def test_a_parameter_that_says_not_what_it_reads_is_named(shop):
    with pytest.raises(DeclarationError, match="parameter raw"):

        @shop.silver()
        def rows(raw):
            """One row per thing."""
            return raw


def test_a_name_that_could_climb_out_of_the_lake_is_refused():
    with pytest.raises(DeclarationError, match="lower-case"):
        declare((Pipeline("../etc"), "bronze"), Pipeline("x").landing("a", format="json"))


def test_a_table_declared_twice_is_refused(orders, shop):
    declare((shop, "silver"), stream(orders))
    with pytest.raises(DeclarationError, match="declared twice"):
        declare((shop, "silver"), stream(orders))


@pytest.mark.parametrize(("name", "predicate"), [("", "a > 0"), ("rule", "a >"), ("drop table", "a > 0")])
def test_an_expectation_without_a_name_or_that_does_not_parse_is_refused(name, predicate):
    with pytest.raises(DeclarationError):
        expect(name, predicate)


def test_calling_a_table_without_one_of_its_frames_is_an_error_that_names_it(orders):
    with pytest.raises(DeclarationError, match="files"):
        orders()
