"""Random select lists over random records, against Spark evaluating each record alone under strict SQL.

``MEDALLION_EXAMPLES=50`` tries fifty times as many; hypothesis prints what it failed on.
"""

import json

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException

from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.options import Source
from medallion_assets.sources.select_list import selected
from medallion_assets_tests.examples import FACTOR

EXAMPLES = 10 * FACTOR
OURS = ("_rescued_data", "_raw", "_reason", "_source_file", "_source_modified_at")
COLUMNS = "id, s, n, xs, st, js"
TEXTS = ("", "0", "1", "7", " 7 ", "2147483647", "2147483648", "1.5", "-3", "x", "a-b", "a-b-c", "2024-02-29",
         "2023-02-29", "2024-01-31 10:00:00", "true", "NaN")  # fmt: skip
DOCUMENTS = ("{}", '{"a":1}', '{"a":"x"}', '{"a":[1]}', "[1,2]", '[1,"x"]', "[]", "{", "null")


def literal(text):
    return "CAST(NULL AS STRING)" if text is None else f"'{text}'"


texts = st.sampled_from((None, *TEXTS)).map(literal)
numbers = st.sampled_from((None, 0, 1, -1, 2, 3, 2147483647, -2147483648)).map(
    lambda n: "CAST(NULL AS INT)" if n is None else f"CAST({n} AS INT)"
)
lists = st.one_of(
    st.just("CAST(NULL AS ARRAY<STRING>)"),
    st.lists(texts, max_size=3).map(lambda found: f"CAST(array({', '.join(found)}) AS ARRAY<STRING>)"),
)
structs = st.tuples(texts, numbers).map(lambda pair: f"named_struct('a', {pair[0]}, 'b', {pair[1]})")
documents = st.sampled_from((None, *DOCUMENTS)).map(literal)
records = st.lists(st.tuples(texts, numbers, lists, structs, documents), min_size=3, max_size=8)


def of(template, *parts):
    return st.tuples(*parts).map(lambda chosen: template.format(*chosen))


def deeper(found):
    """Return expressions by kind, made of those of each kind there are."""
    text, number, date, array, truth = (found[kind] for kind in ("text", "number", "date", "array", "truth"))
    return {
        "text": st.one_of(
            of("split({}, '-')[{}]", text, number),
            of("element_at(xs, {})", number),
            of("xs[{}]", number),
            of("concat({}, CAST({} AS STRING))", text, number),
            of("upper(coalesce({}, s))", text),
            of("CASE WHEN {} THEN {} ELSE {} END", truth, text, text),
            of("date_format({}, 'yyyy')", date),
            of("IF({}, raise_error('no'), {})", truth, text),
        ),
        "number": st.one_of(
            of("CAST({} AS INT)", text),
            of("try_cast({} AS INT)", text),
            of("({} + {})", number, number),
            of("({} * {})", number, number),
            of("CAST({} / {} AS INT)", number, number),
            of("({} DIV {})", number, number),
            of("element_at({}, {})", array, number),
            of("size({})", array),
            of("aggregate({}, 0, (a, x) -> a + x)", array),
            of("CASE WHEN s = 'x' THEN NULL ELSE CAST({} AS INT) END", text),
            of("CASE WHEN {} THEN {} ELSE {} END", truth, number, number),
            of("from_json({}, 'a INT', map('mode', 'FAILFAST')).a", text),
            of("CAST(CAST({} AS DECIMAL(5, 2)) AS INT)", text),
            of("abs({})", number),
        ),
        "date": st.one_of(
            of("TO_DATE({}, 'yyyy-MM-dd')", text),
            of("CAST({} AS DATE)", text),
            of("date_add({}, {})", date, number),
            of("CAST(to_timestamp({}) AS DATE)", text),
        ),
        "array": st.one_of(
            of("transform(xs, x -> CAST(x AS INT) + {})", number),
            of("transform({}, x -> x DIV {})", array, number),
            of("filter({}, x -> x > {})", array, number),
            of("slice({}, {}, 2)", array, number),
            of("from_json({}, 'ARRAY<INT>', map('mode', 'FAILFAST'))", text),
        ),
        "truth": st.one_of(
            of("{} > {}", number, number),
            of("{} IS NULL", text),
            of("exists({}, x -> x = {})", array, number),
            of("CAST({} AS BOOLEAN)", text),
        ),
    }


SIMPLE = {
    "text": st.sampled_from(("s", "js", "st.a", "'7'")),
    "number": st.sampled_from(("n", "st.b", "id", "0", "1", "2")),
    "date": st.sampled_from(("DATE '2024-02-29'", "CAST(s AS DATE)")),
    "array": st.sampled_from(
        ("CAST(xs AS ARRAY<INT>)", "array(n, 1)", "array()", "CAST(NULL AS ARRAY<INT>)")
    ),
    "truth": st.sampled_from(("true", "n > 0", "s IS NULL")),
}
ONCE = deeper(SIMPLE)
TWICE = deeper({kind: st.one_of(SIMPLE[kind], ONCE[kind]) for kind in SIMPLE})
WHOLE = st.sampled_from(("CAST(st AS STRUCT<a: INT, b: STRING>)", "CAST(array(xs) AS ARRAY<ARRAY<DATE>>)",
                         "named_struct('x', CAST(s AS INT), 'y', xs[0])"))  # fmt: skip
expressions = st.one_of(*TWICE.values(), WHOLE)


@st.composite
def select_lists(draw):
    """Return expressions, some of which share a part, which Spark computes once where it can."""
    first = draw(expressions)
    others = draw(st.lists(st.one_of(expressions, st.just(first)), max_size=2))
    return ["id", *(f"{text} AS c{i}" for i, text in enumerate([first, *others]))]


def values(rows):
    whole = (f"({i}, {', '.join(row)})" for i, row in enumerate(rows))
    return f"(SELECT * FROM VALUES {', '.join(whole)} AS t({COLUMNS}))"


def strict_value(frame, select, number):
    """Return what strict SQL gives for one record alone, None where it fails."""
    try:
        return repr(frame.where(f"id = {number}").selectExpr(*select).collect()[0].asDict(recursive=True))
    except AnalysisException:
        raise
    except Exception:
        return None


@pytest.mark.spark
def test_each_record_has_exactly_the_strict_value_or_is_refused(spark):
    seen = {"good": 0, "refused": 0, "unresolved": 0}

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck),
              derandomize=EXAMPLES == 10, database=None, phases=[Phase.generate])  # fmt: skip
    @given(records, select_lists())
    def each_example(rows, select):
        source = Source("t", "json", select=tuple(select))
        nothing = ", ".join(f"CAST(NULL AS STRING) AS {name}" for name in OURS[:3])
        origin = "'f' AS _source_file, TIMESTAMP '2024-01-01' AS _source_modified_at"
        frame = (
            spark.sql(f"SELECT *, {nothing}, {origin} FROM {values(rows)}").repartition(2).localCheckpoint()
        )
        try:
            wanted = [strict_value(frame, select, number) for number in range(len(rows))]
        except AnalysisException:
            # A type that does not go with another: no record could be loaded.
            seen["unresolved"] += 1
            with pytest.raises(SourceError, match="cannot be resolved"):
                selected(frame, source)
            return
        judged = selected(frame, source).collect()
        good = {row.id: row.asDict(recursive=True) for row in judged if row._reason is None}
        loaded = {i: repr({k: v for k, v in row.items() if k not in OURS}) for i, row in good.items()}
        assert loaded == {i: value for i, value in enumerate(wanted) if value is not None}
        refused = [row for row in judged if row._reason is not None]
        assert sorted(json.loads(row._raw)["id"] for row in refused) == [
            i for i, value in enumerate(wanted) if value is None
        ]
        assert all("cannot evaluate" in row._reason for row in refused)
        seen["good"] += len(good)
        seen["refused"] += len(refused)

    each_example()
    assert min(seen["good"], seen["refused"]) > EXAMPLES, seen
    assert seen["unresolved"] < EXAMPLES / 2, seen
