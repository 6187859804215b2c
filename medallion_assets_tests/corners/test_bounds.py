"""What grows with the input is taken in parts: backlogs, quarantines, refused rows, repeated keys."""

import os
import shutil
import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.types import LongType, StructType

from medallion_assets.declare import Pipeline, expect, keep_changes, stream
from medallion_assets.delta import changes, commit, log
from medallion_assets.delta.batches import recorded
from medallion_assets.delta.changes import VersionRange
from medallion_assets.lake.paths import Lake
from medallion_assets.orchestration import metadata
from medallion_assets.quality import set_rule_checks
from medallion_assets.quality.set_rule_checks import repeated_keys
from medallion_assets.quality.verdicts import unique_keys
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.replay.replay import replay
from medallion_assets.reports import quarantine_counts, quarantine_rows
from medallion_assets.runs.run import Refresh
from medallion_assets.sources.discovery import DiscoveryOptions, entries_of
from medallion_assets.sources.formats.json_rows import CarefulReader
from medallion_assets.sources.formats.text_files import parse_text_files
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import POSITION
from medallion_assets.sources.refused_values import refused_values
from medallion_assets.sources.value_books import CommittedValues
from medallion_assets_tests.examples import examples
from medallion_assets_tests.shop import chain, json_lines


@pytest.fixture
def answers(monkeypatch):
    """The number of rows of each answer that Python was given of a table."""
    sizes, rows = [], log.rows

    def noted(*args, **named):
        found = rows(*args, **named)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(log, "rows", noted)
    return sizes


def held_entries(lake, table, count):
    """Write a quarantine of so many entries, the last of them the newest, each with a reason of its own."""
    of = {
        "entry_id": [f"{n:09d}" for n in range(count)],
        "row": [f'{{"id": {n}}}' for n in range(count)],
        "rules": [[f"it's bad at {n}", "all"] for n in range(count)],
        "reason_class": ["parse"] * count,
        "status": ["open"] * count,
        "quarantined_at": pa.array(range(count), pa.timestamp("us", "UTC")),
    }
    write_deltalake(str(lake.quarantine(table)), pa.table(of))


def test_what_is_shown_of_a_quarantine_is_limited_where_it_is_read(lake, answers):
    _, sales, _ = chain()
    held_entries(lake, sales, 5000)
    shown = quarantine_rows(sales, lake, 3)
    assert [row["entry_id"] for row in shown] == ["000004999", "000004998", "000004997"]
    assert [row["row"] for row in quarantine_rows(sales, lake, 3, "it's bad at 17")] == ['{"id": 17}']
    told = metadata.quarantine(sales, lake, Refresh(sales.key, "", (), None, 0.0, ""))
    assert told["dagster/row_count"] == 5000
    assert "it's bad at 4999" in told["newest_reasons"]
    assert max(answers) <= metadata.MOST_RULES
    assert "| all | parse | 5000 |" in told["by_rule"].value
    assert len(quarantine_counts(sales, lake)) == 5001


def test_of_keys_that_stand_twice_a_few_are_read_and_all_are_counted(lake, answers):
    _, sales, _ = chain()
    write_deltalake(str(lake.path(sales)), pa.table({"id": [n // 2 for n in range(6000)] + [-1]}))
    verdict = unique_keys(sales, lake)
    assert not verdict.passed
    assert verdict.numbers["repeated_keys"] == 3000
    assert "'n': 2" in verdict.numbers["sample"]
    assert max(answers) == 5


KEYS = st.sampled_from([None, "", "|", "a", "A", "a|", "é"]) | st.text(max_size=3)


@given(rows=st.lists(st.tuples(KEYS, st.none() | st.integers(0, 3)), min_size=1, max_size=60))
@examples(10)
def test_repeated_keys_of_a_large_table_are_those_of_a_small_one(rows):
    twice = [n for n in Counter(rows).values() if n > 1]
    with tempfile.TemporaryDirectory() as folder:
        for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            text, number = ([row[i] for row in half] for i in (0, 1))
            columns = {".k": pa.array(text, pa.string()), "k": pa.array(number, pa.int64())}
            write_deltalake(folder, pa.table(columns), mode="append")
        # Few bits: most fingerprints look repeated.
        for most, bits in ((0, 64), (1000, 0)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(set_rule_checks, "MOST_GROUPED", most)
                patch.setattr(set_rule_checks, "BITS", bits)
                count, sample = repeated_keys([".k", "k"], Path(folder))
            assert count == len(twice)
            assert len(sample) == min(count, 5)
            assert all(row["n"] == Counter(rows)[row[".k"], row["k"]] for row in sample)


def test_the_values_of_refused_records_are_counted_a_few_records_at_a_time(tmp_path):
    count, text = 60_000, "x" * 1000
    row = pa.array([f'{{"id": {n}, "name": "{text}"}}' for n in range(count)])
    told = {"reason_class": ["schema"] * count, "rules": [["why"]] * count}
    told["raw_base64"] = pa.nulls(count, pa.string())
    pq.write_table(pa.table({"row": row, "source_file": ["a.json"] * count, **told}), tmp_path / "p.parquet")
    there, values = CommittedValues(), refused_values([], Source("s", "json"), {})
    tracemalloc.start()
    there.add_refused([tmp_path / "p.parquet"], "", values)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert there.quarantined["a.json"] == {"id": count, "name": count}
    assert peak < 20 << 20


def test_records_that_are_no_rows_are_decided_a_few_at_a_time_and_keep_their_places(tmp_path, monkeypatch):
    count, sizes, table = 20_000, [], CarefulReader.table
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text("".join(f'{{"id": broken {n}}}\n' for n in range(count)))

    def noted(self, judged, places):
        sizes.append(len(judged))
        return table(self, judged, places)

    monkeypatch.setattr(CarefulReader, "table", noted)
    source = Source("s", "json", str(tmp_path / "in"))
    files = entries_of(tmp_path / "in", tmp_path / "ledger", source, DiscoveryOptions())
    written = parse_text_files(files, StructType().add("id", LongType()), source, tmp_path / "out")
    found = pq.read_table(written.judged[0], columns=["_raw", POSITION])
    assert found.column("_raw").to_pylist() == [f'{{"id": broken {n}}}' for n in range(count)]
    assert found.column(POSITION).to_pylist() == [f"line {n + 1}" for n in range(count)]
    assert max(sizes) < count / 2


def test_a_range_is_cut_between_commits_and_never_within_one(tmp_path):
    for size in (10, 10, 1000, 10, 10, 10):
        rows = pa.table({"id": [str(n) for n in range(size)], "part": [n % 2 for n in range(size)]})
        write_deltalake(str(tmp_path), rows, mode="append", partition_by=["part"])

    def cut(after, most):
        return [(r.after, r.upto) for r in changes.cut_to_size(tmp_path, VersionRange(after, 5), most)]

    sizes = [sum(a["add"]["size"] for a in log.actions(tmp_path, v) if "add" in a) for v in range(6)]
    assert cut(0, 1) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    assert cut(0, sizes[3] + sizes[4]) == [(0, 1), (1, 2), (2, 4), (4, 5)]
    assert cut(0, sum(sizes)) == cut(0, 1 << 40) == [(0, 5)]
    assert cut(-1, 1) == [(-1, 5)]


def shop_of_all_kinds():
    shop = Pipeline("shop")
    landed = {"format": "json", "schema": "id INT, who INT, at INT, total INT"}

    @shop.bronze()
    def orders(files=shop.landing("orders", **landed)):  # noqa: B008
        """One row per order."""
        return files

    @shop.silver(unique_by="id", expectations=[expect("above_zero", "total > 0")])
    def sales(orders=stream(orders)):
        """One row per sale."""
        return orders.select("id", "who", "total")

    @shop.silver(scd=keep_changes("who", "at", type=2))
    def people(orders=stream(orders)):
        """One row per person and state."""
        return orders.select("who", "at", "total")

    @shop.gold(output_mode="incremental", row_count_column="sales")
    def totals(sales=stream(sales)):
        """One row per person."""
        return sales.groupBy("who").agg(F.sum("total").alias("total"), F.count("*").alias("sales"))

    return orders, sales, people, totals


def landed_day(drop, day):
    """Land a file of six orders of two people; one is refused, and one is a sale of the day before."""
    orders = [{"id": day * 10 + n, "who": n % 2, "at": day * 10 + n, "total": n + day * 7} for n in range(6)]
    orders[0]["total"] = -1
    orders[1] |= {"id": day * 10 - 8, "who": 0, "total": day * 7 - 5}
    drop("shop/orders", f"{day}.json", json_lines(*orders))


def answers_of(rows_of, tables):
    found = {table.key: [sorted(row.items()) for row in rows_of(table.key)] for table in tables}
    return {key: sorted(map(repr, rows)) for key, rows in found.items()}


@pytest.mark.spark
@pytest.mark.thorough
def test_a_backlog_is_taken_in_batches_of_whole_commits_whatever_dies(
    drop, lake, refreshed, rows_of, lakehouse_here, do, spark, monkeypatch
):
    tables = orders, sales, people, totals = shop_of_all_kinds()
    small = Lake(lake.settings.model_copy(update={"max_bytes_per_trigger": 1}))
    lakehouse_here.lake = small
    # Spark writes a file for every two rows, so that each commit has several.
    monkeypatch.setattr(commit, "write_few", lambda *_: False)
    with commit.configured(spark, {"spark.sql.files.maxRecordsPerFile": "2"}):
        landed_day(drop, 1)
        refreshed(*tables)
        for day in (2, 3, 4):
            landed_day(drop, day)
            refreshed(orders)
    assert len(log.actions(lake.path(orders), 3)) > 3, "a commit has one file: nothing could cut it"
    at = recorded(lake.path(sales))[-1].position
    # The third commit is the second batch's into the quarantine: the batch did not happen.
    with lakehouse_here.crash_at(3):
        lakehouse_here.run(sales)
    assert [batch.position for batch in recorded(lake.path(sales))] == [at, at + 1]
    # The first one takes that back; the third is the table's.
    with lakehouse_here.crash_at(3):
        lakehouse_here.run(sales)
    assert [batch.position for batch in recorded(lake.path(sales))] == [at, at + 1, at + 2]
    done = lakehouse_here.run(sales, people, totals)
    assert [batch.position for batch in done[sales.key].batches] == [at + 3]
    assert [batch.position for batch in done[people.key].batches] == [at + n for n in (1, 2, 3)]
    assert [batch.strategy.partition(":")[0] for batch in done[people.key].batches] == ["in order"] * 3
    assert len(done[totals.key].batches) == 3
    lakehouse_here.assert_conserved(*tables)
    lakehouse_here.assert_exactly_once(sales, people)
    in_parts = answers_of(rows_of, tables[1:])
    for table in tables[1:]:
        do("full_refresh", table)
    assert answers_of(rows_of, tables[1:]) == in_parts


@pytest.fixture
def replayed(lake, spark):
    return lambda table, fix: replay(table, lake, spark, QuarantineFilter(), fix)


def csv_orders():
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format="csv", schema="id INT, name STRING")):  # noqa: B008
        """One row per order."""
        return files

    return orders


@pytest.mark.spark
def test_a_replay_of_csv_records_holds_none_of_them_in_the_driver(
    drop, refreshed, replayed, rows_of, monkeypatch
):
    orders, sizes, collect = csv_orders(), [], DataFrame.collect
    for name in ("a", "b"):
        lines = "".join(f"{n},{name},more\n" for n in range(300))
        drop("shop/orders", f"{name}.csv", f"id,name\n{lines}900,{name}\n")
    refreshed(orders)

    def noted(self):
        sizes.append(len(found := collect(self)))
        return found

    monkeypatch.setattr(DataFrame, "collect", noted)
    assert replayed(orders, fix="row = replace(row, ',more', '')").written == 600
    assert max(sizes) < 10
    assert rows_of(orders.key, "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM t") == [
        {"n": 602, "ids": 301}
    ]


@pytest.mark.spark
@pytest.mark.parametrize("allow_overwrites", ["append", "replace"])
def test_what_is_read_of_a_table_to_know_its_files_again_does_not_grow_with_their_history(
    landed, autoload, rows, tmp_path, monkeypatch, allow_overwrites
):
    sizes, collect = [], DataFrame.collect
    read = {"schema": "id INT", "allow_overwrites": allow_overwrites, "max_files_per_trigger": 2}
    for number in range(6):
        folder = landed(
            **{"log__json": json_lines({"id": number}), f"{number}__json": json_lines({"id": 10 + number})}
        )
        os.utime(folder / "log.json", (number + 1, number + 1))
        autoload(folder, "json", **read)
    shutil.rmtree(tmp_path / "checkpoints/t")

    def noted(self):
        found = collect(self)
        sizes.append(len(found))
        return found

    landed(new__json=json_lines({"id": 20}))
    monkeypatch.setattr(DataFrame, "collect", noted)
    done = autoload(folder, "json", **read)
    monkeypatch.undo()
    assert done.rows_loaded == 1
    ids = sorted(row["id"] for row in rows(done, "id"))
    logged = [*range(6)] if allow_overwrites == "append" else [5]
    assert ids == [*logged, *range(10, 16), 20]
    # The eight files come in four batches, of which each asks for its own.
    assert 0 < max(sizes) <= 3
