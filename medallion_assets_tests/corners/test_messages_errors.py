"""Errors are one paragraph that names part, file and line; the trace is in a file of its own."""

import inspect
import re
from pathlib import Path

import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, expect, keep_changes, static, stream, unique
from medallion_assets.declare.errors import ExpectationFailed
from medallion_assets.lake.paths import Lake
from medallion_assets.runs.run import Outcome, run_tables
from medallion_assets.runtime.failures import KEPT_TRACES, cause_of, explained, failure_text, passes_by_itself
from medallion_assets.sources.errors import BatchRefused, first_line
from medallion_assets_tests.shop import chain, json_lines, orders_of

HERE = __file__


def line_of(text):
    """Return where a text stands in this file, as ``file:line``; the first time it does."""
    lines = Path(HERE).read_text().splitlines()
    return f"{HERE}:{next(n for n, line in enumerate(lines, 1) if text in line)}"


def misspelt(rows):
    return rows.withColumn("sum", F.col("totl") + 1)


def shop_of_mistakes():
    """A shop whose tables each have one mistake, with what their errors must say."""
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format="json", schema="id INT, total INT, word STRING")):  # noqa: B008
        """One row per order."""
        return files

    @shop.silver()
    def query(orders=stream(orders)):
        return misspelt(orders)

    @shop.silver()
    def sql(orders=stream(orders)):
        return "SELECT id, totl FROM orders"

    @shop.silver(expectations=[expect("fine", "id > 0"), expect("above_zero", "totl > 0")])
    def rule(orders=stream(orders)):
        return orders.select("id", "total")

    @shop.silver(unique_by="idd")
    def key(orders=stream(orders)):
        return orders.select("id", "total")

    @shop.silver()
    def join(orders=stream(orders), people=static(orders, on="idd", unmatched="quarantine")):
        return orders.select("id")

    @shop.silver()
    def python(orders=stream(orders)):
        return orders.select({}["nothing"])

    @shop.silver()
    def cast(orders=stream(orders)):
        return orders.select("id", F.col("word").cast("timestamp").alias("at"))

    @shop.silver(expectations=[expect("is_number", "CAST(word AS INT) > 0")])
    def cast_in_rule(orders=stream(orders)):
        return orders.select("id", "word")

    said = {
        query: f"the query ({line_of('rows.withColumn')})",
        sql: f"the query ({sql.declared_at})",
        rule: f"the expectation above_zero, totl > 0 ({rule.declared_at})",
        key: f"unique_by ({key.declared_at})",
        join: f"the join with people ({join.declared_at})",
        python: f"the query ({line_of('{}[')})",
        cast: f"the query ({line_of('.cast(')})",
        cast_in_rule: "the expectation is_number, CAST(word AS INT) > 0",
    }
    return orders, said


@pytest.mark.spark
def test_each_mistake_is_one_paragraph_with_part_file_line_and_trace(drop, lake, spark, capfd):
    orders, said = shop_of_mistakes()
    drop("shop/orders", "a.json", json_lines(*({"id": i, "total": 5, "word": f"w{i}"} for i in range(30))))
    capfd.readouterr()
    outcomes = {o.table.key: o for o in run_tables([orders, *said], lake, lambda: spark)}
    printed = capfd.readouterr()
    assert not [line for line in printed.err.splitlines() if "Exception" in line or "\tat " in line]
    assert len(printed.err) < 1000
    for table, part in said.items():
        error = outcomes[table.key].error
        assert part in error, error
        assert "\n" not in error
        assert len(error) < 1000
        trace = Path(re.search(r"Trace: (.+)$", error)[1])
        assert "Traceback" in trace.read_text()
    for name in ("query", "sql", "rule"):
        assert "[`total`, `id`" in outcomes[f"shop/silver/{name}"].error


@pytest.mark.spark
def test_a_row_that_its_query_cannot_cast_is_quarantined_without_a_trace_on_the_terminal(lakehouse, capfd):
    orders, said = shop_of_mistakes()
    cast = next(table for table in said if table.name == "cast")
    words = ["2024-01-01", "soon", "2024-01-02T10:00:00Z"]
    lakehouse.land("shop/orders", "a.json", json_lines(*({"id": n, "word": w} for n, w in enumerate(words))))
    capfd.readouterr()
    outcomes = run_tables([orders, cast], lakehouse.lake, lakehouse._spark)
    printed = capfd.readouterr()
    assert [o.error for o in outcomes] == ["", ""]
    assert not [
        line for line in (printed.err + printed.out).splitlines() if "Exception" in line or "\tat " in line
    ]
    assert lakehouse.rows(cast, "SELECT id FROM t ORDER BY id") == [{"id": 0}, {"id": 2}]


def test_an_error_that_names_itself_as_its_cause_ends_the_search_for_passing_errors():
    error = ExpectationFailed("shop/silver/sales: a row broke above_zero")
    error.__cause__ = error
    assert not passes_by_itself(error)


def test_only_the_newest_traces_are_kept_and_errors_of_ours_need_none(lake):
    sales = chain()[1]
    for number in range(KEPT_TRACES + 5):
        text = failure_text(sales, lake, KeyError(number))
    assert "KeyError: 24. Trace: " in text
    assert len(list(lake.state(sales, "errors").iterdir())) == KEPT_TRACES
    assert (
        failure_text(sales, lake, ExpectationFailed("a  paragraph\nof two lines"))
        == "a paragraph of two lines"
    )


def test_a_cause_is_a_sentence_without_stack_class_or_state_code():
    java = RuntimeError(
        "An error occurred while calling o1.save.\n: org.apache.spark.SparkException: Job aborted.\n"
        "\tat org.apache.Some.code(Some.scala:1)\n"
        "Caused by: org.apache.spark.SparkDateTimeException: [CAST_INVALID_INPUT] The value 'x' is "
        "malformed. SQLSTATE: 22018\n\tat org.apache.More.code(More.scala:2)"
    )
    assert cause_of(java) == "[CAST_INVALID_INPUT] The value 'x' is malformed."


WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "./medallion.zip/mart/tables.py", line 6, in <module>
    import rates
ModuleNotFoundError: No module named 'rates'
"""


@pytest.mark.parametrize(
    ("master", "advised"), [("spark://h:7077", True), ("local[2]", False)], ids=["cluster", "local"]
)
def test_what_a_python_worker_raised_is_the_cause_and_a_cluster_is_told_how_modules_get_there(
    lake, master, advised
):
    there = Lake(lake.settings.model_copy(update={"spark_master": master}))
    words = str(explained(orders_of(Pipeline("shop")), there, PythonException(WORKER)))
    assert "medallion.zip/mart/tables.py:6) failed: ModuleNotFoundError: No module named 'rates'." in words
    assert ("name other modules in spark.submit.pyFiles" in words) == advised


WRONG = {
    "silver(unique_bye=...)": (lambda shop: shop.silver(unique_bye="id"), "unique_by"),
    "landing(shema=...)": (lambda shop: shop.landing("a", format="json", shema="a INT"), "schema"),
    "stream(watermak=...)": (lambda shop: stream(None, watermak="1 minute"), "watermark"),
    "static(unmatch=...)": (lambda shop: static(None, unmatch="retry"), "unmatched"),
    "expect(on_violaton=...)": (lambda shop: expect("a", "b > 0", on_violaton="drop"), "on_violation"),
    "keep_changes(sequence=...)": (lambda shop: keep_changes("id", sequence="at"), "sequence_by"),
    "unique(column=...)": (lambda shop: unique("a", column="b"), "columns"),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_unknown_option_of_a_declaration_names_the_one_that_was_meant(what):
    wrong, meant = WRONG[what]
    with pytest.raises(ValueError, match=f"did you mean '?{meant}'?"):
        wrong(Pipeline("shop"))


def test_a_table_needs_no_docstring_of_a_certain_form():
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format="json")):  # noqa: B008
        """All orders, as they landed."""
        return files

    assert inspect.getdoc(orders.query) == orders.description


class Silent(BatchRefused):
    """A refusal of ours that says nothing."""


@pytest.mark.parametrize("error", [Silent(), ValueError(), RuntimeError(" "), KeyError()])
def test_an_error_without_a_message_is_still_told_and_its_table_is_not_well(lake, error):
    (table, *_) = chain()
    text = failure_text(table, lake, error)
    assert type(error).__name__ in text
    assert not Outcome(table, None, None, error=text).is_well
    assert first_line(error) == type(error).__name__
