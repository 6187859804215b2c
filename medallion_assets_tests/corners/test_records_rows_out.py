"""A query that gives many rows for one: each upstream row gives one at least, or is quarantined by name."""

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, expect, static, stream
from medallion_assets.declare.errors import DeclarationError
from medallion_assets.declare.table import SOURCE_ROW
from medallion_assets.delta import log
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.quality.conservation import balance
from medallion_assets.quality.verdicts import conservation
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets_tests.examples import seldom
from medallion_assets_tests.shop import json_lines

SCHEMA = "id INT, lines ARRAY<STRUCT<item: STRING, quantity: INT>>"


def line(item, quantity=1):
    return {"item": item, "quantity": quantity}


def order(number, *lines):
    return {"id": number, "lines": list(lines)}


def shop(keys=("id", "item"), keeps=SOURCE_ROW, joined=False, **more):
    """Orders, and one row for each of their lines; with ``joined`` one for each tag of the item besides."""
    made = Pipeline("shop")
    replaced = {"format": "json", "allow_overwrites": "replace"}

    @made.bronze()
    def orders(files=made.landing("orders", schema=SCHEMA, **replaced)):  # noqa: B008
        """One row per order, as it landed."""
        return files

    @made.bronze()
    def tags(files=made.landing("tags", schema="item STRING, tag STRING", **replaced)):  # noqa: B008
        """One row per tag of an item."""
        return files

    rules = [expect("above_zero", "quantity > 0"), expect("sold", "item <> 'gift'", "drop")]

    @made.silver(unique_by=keys, expectations=rules, rows_out="many", **more)
    def lines(orders=stream(orders), tags=static(tags)):
        """One row per line of an order."""
        kept = [keeps] if keeps else []
        each = orders.select("id", F.explode("lines").alias("line"), *kept).select("id", "line.*", *kept)
        return each.join(tags, "item") if joined else each

    return orders, tags, lines


class House:
    """A lake with the shop in it."""

    def __init__(self, house, **more):
        self.house, self.tables = house, shop(**more)

    def run(self, name, *orders):
        self.house.land("shop/orders", name, json_lines(*orders))
        self.house.run(*self.tables)
        self.house.assert_conserved(*self.tables)

    def do(self, verb, **asked):
        done = VERBS[verb](self.tables[2], self.house.lake, self.house._spark, VerbRequest(**asked))
        self.house.assert_conserved(*self.tables)
        assert done.well, done.does
        return done

    def lines(self):
        rows = self.house.rows(self.tables[2], "SELECT id, item FROM t ORDER BY id, item")
        return [tuple(row.values()) for row in rows]

    def held(self):
        found = log.rows(self.house.lake.quarantine(self.tables[2]), "SELECT * FROM t WHERE status = 'open'")
        return sorted((json.loads(e["row"])["id"], e["reason_class"], tuple(e["rules"])) for e in found)


@pytest.mark.spark
@pytest.mark.parametrize("keys", [("id", "item"), seldom(())], ids=["rows with keys", "rows without"])
def test_every_order_gives_a_line_or_is_held_by_name_through_corrections_replays_and_refreshes(
    lakehouse, keys
):
    shop = House(lakehouse, keys=keys)
    lakehouse.land("shop/tags", "t.json", json_lines({"item": "a", "tag": "x"}))
    bad = (2, "query", ("gave_no_row",))
    shop.run(
        "1.json", order(1, line("a"), line("b"), line("gift")), order(2), order(2), order(3, line("a", -1))
    )
    assert shop.lines() == [(1, "a"), (1, "b")]
    assert shop.held() == [bad, bad, (3, "rule", ("above_zero",))]
    books = balance(shop.tables[2], lakehouse.lake)
    assert (books.incoming, books.expanded, books.rows, books.dropped) == (4, 2, 2, 1)
    words = conservation(shop.tables[2], lakehouse.lake).words
    assert words == "4 in + 2 more than one for a row = 2 rows + 3 quarantined + 1 dropped"
    shop.run("2.json", order(4, line("a"), line("c")), order(5))
    done = shop.do("replay")
    assert (done.found["written"], done.found["still_open"]) == (0, 4)
    fix = "lines = array(named_struct('item', 'd', 'quantity', 1), named_struct('item', 'e', 'quantity', 1))"
    done = shop.do("replay", choice=QuarantineFilter(reasons=("query",)), fix=fix)
    both = [(2, "d"), (2, "e")] * (1 if keys else 2)
    fixed = [(1, "a"), (1, "b"), *sorted(both), (4, "a"), (4, "c"), (5, "d"), (5, "e")]
    assert shop.lines() == fixed
    assert shop.held() == [(3, "rule", ("above_zero",))]
    shop.do("full_refresh")
    assert shop.lines() == fixed
    shop.run("2.json", order(4, line("a")), order(6), order(7, line("z"), line("y")))
    assert shop.lines() == [*fixed[:-4], (4, "a"), (7, "y"), (7, "z")]
    assert shop.held() == [(3, "rule", ("above_zero",)), (6, "query", ("gave_no_row",))]
    shop.run("2.json", order(7, line("y")))
    assert shop.held() == [(3, "rule", ("above_zero",))]
    lakehouse.assert_exactly_once(*shop.tables)


@pytest.mark.spark
def test_a_join_that_fans_out_and_a_batch_that_dies_are_counted_once(lakehouse):
    shop = House(lakehouse, keys=(), joined=True)
    told = [{"item": "a", "tag": "x"}, {"item": "a", "tag": "y"}, {"item": "b", "tag": "x"}]
    lakehouse.land("shop/tags", "t.json", json_lines(*told))
    shop.run("1.json", order(1, line("a"), line("b")))
    assert shop.lines() == [(1, "a"), (1, "a"), (1, "b")]
    for commit in (1, 2):
        numbers = (commit * 10, commit * 10 + 1)
        lakehouse.land(
            "shop/orders",
            f"{commit + 1}.json",
            json_lines(*(order(n, line("a")) for n in numbers), order(9, line("none"))),
        )
        lakehouse.run(*shop.tables[:2])
        with lakehouse.crash_at(commit):
            lakehouse.run(shop.tables[2])
        lakehouse.run(shop.tables[2])
        lakehouse.assert_conserved(*shop.tables)
    assert len(shop.lines()) == 3 + 8
    assert shop.held() == [(9, "query", ("gave_no_row",))] * 2


@pytest.mark.spark
def test_a_query_that_drops_the_name_of_its_upstream_row_stops_and_a_unit_test_needs_no_name(lakehouse):
    shop = House(lakehouse, keeps="")
    lakehouse.land("shop/tags", "t.json", json_lines({"item": "a", "tag": "x"}))
    with pytest.raises(RuntimeError, match=f"shop/silver/lines: .*{SOURCE_ROW}"):
        shop.run("1.json", order(1, line("a")))
    frame = lakehouse._spark().createDataFrame([(1, [("a", 1)])], SCHEMA)
    tested = House(lakehouse).tables[2]
    assert tested(frame, frame.select(F.lit("a").alias("item"))).columns == ["id", "item", "quantity"]


def test_many_rows_for_one_are_refused_where_they_cannot_be_counted():
    made = Pipeline("shop")
    orders, tags, _ = shop()
    with pytest.raises(DeclarationError, match="rows_out 'lots'"):

        @made.silver(rows_out="lots")
        def lots(orders=stream(orders)):
            """One row per line."""

    with pytest.raises(DeclarationError, match="append rows of other tables"):

        @made.gold(rows_out="many", output_mode="incremental", row_count_column="n")
        def sums(orders=stream(orders)):
            """One row per item."""

    with pytest.raises(DeclarationError, match="needs unmatched"):

        @made.silver(rows_out="many", unique_by="id")
        def followed(orders=stream(orders), tags=static(tags, on="item", follow=True)):
            """One row per line."""
