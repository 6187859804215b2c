"""Verbs on tables that only notebooks' loads fill, through the command line."""

import json
import re

import pytest
from typer.testing import CliRunner

from medallion_assets import Pipeline, autoload_to_table, copy_into, sql
from medallion_assets.cli import app
from medallion_assets.operations import OF_DECLARED
from medallion_assets.reports.show import console
from medallion_assets.sources.errors import BatchRefused, SourceError
from medallion_assets_tests.shop import json_lines, orders_of

pytestmark = pytest.mark.spark
RESCUING = {"schema_evolution_mode": "rescue", "rescued_data_column": "_rescued_data"}


@pytest.fixture
def medallion(lake, monkeypatch, spark):
    monkeypatch.setattr("medallion_assets.session.start_session", lambda settings: spark)
    monkeypatch.setattr(console, "width", 300)
    return lambda *words: CliRunner().invoke(app, words)


def test_rescued_fields_of_a_loaded_table_go_into_their_columns_and_bad_records_are_replayed(
    lake, landed, medallion, tmp_path, rows_of, spark, monkeypatch
):
    folder = landed(a__json=json_lines({"id": 1, "tip": 2}) + "broken\n")

    def load(schema):
        return autoload_to_table(
            folder,
            "json",
            "web.bronze.orders",
            tmp_path / "checkpoint",
            spark=spark,
            schema=schema,
            **RESCUING,
        )

    assert load("id INT").rows_rescued == 1
    landed(b__json=json_lines({"id": 2, "tip": 3}))
    load("id INT, tip INT")
    replay = ("quarantine", "replay", "web.bronze.orders")
    assert (
        "rescued fields of 1 row would be moved"
        in medallion(*replay, "--reason", "rescued", "--dry-run").output
    )
    assert "rescued fields of 1 row were moved" in medallion(*replay, "--reason", "rescued").output
    assert "broken" in medallion("quarantine", "show", "web.bronze.orders").output
    fixed = medallion(*replay, "--fix", 'row = \'{"id": 3, "tip": 9}\'')
    assert "1 row was judged again: 1 written" in fixed.output, fixed.output
    found = rows_of("web/bronze/orders", "SELECT id, tip FROM t ORDER BY id")
    assert [tuple(row.values()) for row in found] == [(1, 2), (2, 3), (3, 9)]
    monkeypatch.delenv("MEDALLION_PIPELINES")
    monkeypatch.chdir(tmp_path)
    assert "web/bronze/orders" in medallion("status").output, (
        "outside of a project, loaded tables are all there are"
    )
    told = json.loads(medallion("status", "web.bronze.orders", "--json").output)
    assert (told[0]["rows"], told[0]["quarantined"], told[0]["checks"]["conservation"]) == (3, 0, "passed")
    assert "every record is accounted for" in medallion("audit", "web.bronze.orders").output
    landed(c__json=json_lines({"id": 4, "tip": 1}) + "junk\n")
    done = load("id INT, tip INT")
    assert (done.rows_loaded, done.rows_quarantined) == (1, 1), "a load goes on after the verbs"
    listed = medallion("quarantine", "list", "web.bronze.orders").output
    assert re.search(r"web/bronze/orders +│ malformed JSON +│ parse +│ 1 ", listed), listed
    discard = ("quarantine", "discard", "web.bronze.orders", "--why", "a test of the sender's")
    assert "1 row would be" in medallion(*discard, "--dry-run").output
    assert "1 row" in medallion(*discard).output
    assert "nothing there" in medallion("quarantine", "list", "web.bronze.orders").output
    kept = rows_of("web/quarantine/orders", "SELECT row, note FROM t WHERE status = 'discarded'")
    assert kept == [{"row": "junk", "note": "a test of the sender's"}]
    compacted = medallion("maintain", "web.bronze.orders")
    assert compacted.exit_code == 0, compacted.output
    assert re.search(r"\d+ files compacted to [12], versions of the last 30 days kept", compacted.output)
    assert "every record is accounted for" in medallion("audit", "web.bronze.orders").output
    assert rows_of("web/bronze/orders", "SELECT count(*) AS n FROM t") == [{"n": 4}]
    assert load("id INT, tip INT").files == 0


def test_a_table_of_copy_into_is_replayed_through_its_select_list_and_other_verbs_say_why_not(
    landed, medallion, rows_of, spark
):
    folder = landed(a__csv="id,day\n1,2024-01-01\n2,soon\n")
    select = ["id", "TO_DATE(day, 'yyyy-MM-dd') AS day"]
    copy_into("web.bronze.days", folder, "csv", select=select, spark=spark)
    fixed = medallion("quarantine", "replay", "web/bronze/days", "--fix", "row = '2,2024-02-02'")
    assert "1 written" in fixed.output, fixed.output
    found = rows_of("web/bronze/days", "SELECT id, CAST(day AS VARCHAR) AS day FROM t ORDER BY id")
    assert [tuple(row.values()) for row in found] == [("1", "2024-01-01"), ("2", "2024-02-02")]
    assert "a.csv" in medallion("files", "web.bronze.days").output
    assert "WRITE" in medallion("history", "web.bronze.days").output
    refused = medallion("full_refresh", "web.bronze.days")
    assert refused.exit_code == 1
    assert "load its files into a table of another name" in refused.output


def test_files_of_loaded_tables_are_validated_and_read_again_in_the_place_of_their_rows(
    lake, landed, medallion, tmp_path, rows_of, spark
):
    folder = landed(
        a__json=json_lines({"id": 1, "tip": 2}) + "broken\n", b__json=json_lines({"id": 2, "tip": 3})
    )

    def load(schema):
        checkpoint = tmp_path / "checkpoint"
        return autoload_to_table(folder, "json", "web.bronze.t", checkpoint, spark=spark, schema=schema)

    load("id INT")
    load("id INT, tip INT")
    landed(c__json=json_lines({"id": 3, "tip": 4}) + "junk\n")
    assert "1 new file to load" in medallion("plan", "web.bronze.t").output
    judged = medallion("validate", "web.bronze.t")
    assert (judged.exit_code, "1 record would load, 1 would be quarantined" in judged.output) == (1, True)
    again = ("reprocess", "web.bronze.t", "--file", "a.json")
    assert "1 file would be read again" in medallion(*again, "--dry-run").output
    assert "1 file read again: 2 records before, 2 now" in medallion(*again).output
    assert (load("id INT, tip INT").files, load("id INT, tip INT").files) == (1, 0)
    since = ("--since", "2020-01-01", "--event-time", "make_date(2000 + id, 1, 1)")
    assert "no loaded file matches" in medallion("reprocess", "web.bronze.t", *since).output
    found = rows_of("web/bronze/t", "SELECT id, tip FROM t ORDER BY id")
    assert [tuple(row.values()) for row in found] == [(1, 2), (2, None), (3, 4)]
    held = rows_of("web/quarantine/t", "SELECT row FROM t WHERE status = 'open' ORDER BY row")
    assert [row["row"] for row in held] == ["broken", "junk"]
    assert "every record is accounted for" in medallion("audit", "web.bronze.t").output
    select = ["CAST(id AS INT) AS id"]
    copy_into("web.bronze.c", folder, "json", select=select, spark=spark)
    copied = medallion("reprocess", "web.bronze.c", "--until", "2999-01-01").output
    assert "3 files read again: 5 records before, 5 now" in copied, copied
    assert copy_into("web.bronze.c", folder, "json", select=select, spark=spark).num_inserted_rows == 0
    assert rows_of("web/bronze/c", "SELECT id FROM t ORDER BY id") == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_verbs_that_need_a_declaration_are_refused_with_what_serves_instead(landed, spark, lake, medallion):
    folder = landed(a__csv="id\n1\n")
    copy_into("t", folder, "csv", format_options={"header": "true"}, spark=spark)
    asked = {"accept_changes": ("--why", "x")}
    for verb, instead in OF_DECLARED.items():
        done = medallion(verb, "t", *asked.get(verb, ()))
        told = " ".join(done.output.split())
        assert (done.exit_code, "is for declared tables" in told) == (1, True), told
        assert instead.split()[-1] in told
    assert "well" in medallion("doctor", str(lake.root / "default/bronze/t")).output
    assert medallion("history", "default.bronze.nothing").exit_code == 2


def test_a_dropped_table_takes_what_belongs_to_it_along_and_is_loaded_anew(
    landed, medallion, lake, spark, tmp_path, rows_of
):
    folder, checkpoint = landed(a__json=json_lines({"id": 1}) + "broken\n"), tmp_path / "checkpoint"

    def load():
        return autoload_to_table(folder, "json", "web.bronze.t", checkpoint, spark=spark, schema="id INT")

    load()
    (checkpoint / "mine.txt").write_text("not the load's")
    assert "dropped" in medallion("sql", "DROP TABLE IF EXISTS web.bronze.t").output
    assert [file.name for file in checkpoint.iterdir()] == ["mine.txt"]
    assert not [*lake.root.glob("web/*/t/_delta_log")]
    assert medallion("sql", "DROP TABLE web.bronze.t").exit_code == 2
    done = load()
    assert (done.rows_loaded, done.rows_quarantined) == (1, 1)
    assert rows_of("web/bronze/t", "SELECT id FROM t") == [{"id": 1}]


def test_a_declared_table_is_not_dropped_by_sql(drop, refreshed, rows_of):
    drop("shop/orders", "a.json", json_lines({"id": 1}))
    refreshed(orders_of(Pipeline("shop")))
    with pytest.raises(SourceError, match="medallion reset shop/bronze/orders --yes"):
        sql("DROP TABLE shop.bronze.orders")
    assert rows_of("shop/bronze/orders", "SELECT id FROM t") == [{"id": 1}]


def test_a_select_list_of_other_types_than_the_table_has_is_refused_in_words(landed, lake, spark):
    folder = landed(a__csv="id,city\n1,Oslo\n")
    sql("CREATE TABLE web.bronze.typed (id INT, city STRING) USING DELTA", spark=spark)
    copying = "COPY INTO web.bronze.typed FROM (SELECT {}, city FROM '{}') FILEFORMAT = CSV"
    with pytest.raises(BatchRefused, match=r"id is string \(.*\), and int in the table.*cast the column"):
        sql(copying.format("id", folder), spark=spark)
    assert sql(copying.format("CAST(id AS INT) AS id", folder), spark=spark).num_affected_rows == 1
