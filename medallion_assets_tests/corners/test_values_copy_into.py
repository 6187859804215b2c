"""COPY INTO keeps every value: what no column takes, what an expression fails on, what a name would hide."""

import json

import pytest

from medallion_assets.delta.commit import Transaction
from medallion_assets.sources import autoload_to_table, copy_into
from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.options import Source
from medallion_assets.sources.rescued_data import unrescue
from medallion_assets_tests.sources.conftest import rescued

ORDERS = [
    {"id": 1, "d": "2024-01-31", "q": "4", "parts": "a-b", "m": "[1,2]", "xs": [1, 2]},
    {"id": 2, "d": "31.01.2024", "q": "4", "parts": "a-b", "m": "[1,2]", "xs": [1, 2]},
    {"id": 3, "d": "2024-01-31", "q": "0", "parts": "a-b", "m": "[1,2]", "xs": [1, 2]},
    {"id": 4, "d": "2024-01-31", "q": "4", "parts": "ab", "m": "[1,2]", "xs": [1, 2]},
    {"id": 5, "d": "2024-01-31", "q": "4", "parts": "a-b", "m": "[1,2]", "xs": []},
    {"id": 6, "d": "2024-01-31", "q": "4", "parts": "a-b", "m": '[1,"x"]', "xs": [1, 2]},
    {"id": 7, "d": "2024-01-31", "q": "n/a", "parts": "a-b", "m": "[1,2]", "xs": [1, 2]},
    {"id": 8, "d": "2024-01-31", "q": "4", "parts": "a-b", "m": "[1,2]", "xs": [2147483647]},
    {"id": 9},
]
SELECT = [
    "id",
    "TO_DATE(d, 'yyyy-MM-dd') AS d",
    "CASE WHEN q = 'n/a' THEN NULL ELSE CAST(q AS INT) END AS q",
    "100 / CASE WHEN q = 'n/a' THEN 1 ELSE CAST(q AS INT) END AS share -- per piece",
    "split(parts, '-')[1] AS part",
    "element_at(xs, 1) AS first",
    "transform(xs, x -> CAST(x AS INT) + 1) AS more",
    "CAST(from_json(m, 'ARRAY<STRING>') AS ARRAY<INT>) AS m",
    "_metadata.file_name AS file",
]
FAILS_ON = {
    2: "TO_DATE(d",
    3: "100 /",
    4: "split(parts",
    5: "element_at(xs",
    6: "CAST(from_json",
    8: "transform(xs",
}


@pytest.mark.spark
def test_each_record_an_expression_fails_on_is_quarantined_and_the_others_get_the_strict_value(
    landed,
    lake,
    spark,
    rows,
    refused,
):
    folder = landed(orders__json="".join(json.dumps(order) + "\n" for order in ORDERS))
    judged = copy_into("web.bronze.c", folder, "json", select=SELECT, validate="ALL", spark=spark)
    assert (judged.validation.good, judged.validation.bad) == (3, 6)
    done = copy_into("web.bronze.c", folder, "json", select=SELECT, spark=spark).load
    assert (done.rows_loaded, done.rows_quarantined, done.rows_unaccounted) == (3, 6, 0)
    assert done.values_unaccounted == {}
    loaded = {row["id"]: row for row in rows(done)}
    assert (loaded[1]["share"], loaded[1]["part"], loaded[1]["more"], loaded[1]["m"]) == (
        25,
        "b",
        [2, 3],
        [1, 2],
    )
    assert (str(loaded[1]["d"]), loaded[1]["first"], loaded[1]["file"]) == ("2024-01-31", 1, "orders.json")
    assert (loaded[7]["q"], loaded[7]["share"]) == (None, 100)
    assert set(loaded[9].values()) == {None, 9, "orders.json"}
    reasons = {json.loads(row)["id"]: reason for row, reason in refused(done)}
    assert set(reasons) == set(FAILS_ON)
    for number, expression in FAILS_ON.items():
        assert reasons[number].startswith(f"does not fit the schema: cannot evaluate {expression}")
        assert reasons[number].count("cannot evaluate") == 1
    kept = {json.loads(row)["id"]: json.loads(row) for row, _ in refused(done)}
    assert kept[2] == ORDERS[1]


@pytest.mark.spark
def test_a_star_is_the_files_columns_and_unknown_fields_stay_with_a_refused_record(
    landed,
    lake,
    spark,
    rows,
    refused,
):
    folder = landed(a__csv="id,amount,extra\n1,10,e\n2,x,f\n")
    select = ["* EXCEPT (amount)", "CAST(amount AS INT)"]
    done = copy_into("web.bronze.c", folder, "csv", select=select, schema="id INT, amount STRING",
                     schema_evolution_mode="none", spark=spark).load  # fmt: skip
    found = rows(done)
    assert done.values_unaccounted == {}
    assert [(row["id"], row["amount"], rescued(row)) for row in found] == [(1, 10, {"extra": "e"})]
    assert [json.loads(row) for row, _ in refused(done)] == [{"id": 2, "amount": "x", "extra": "f"}]


@pytest.mark.spark
def test_a_field_that_differs_in_case_only_is_in_the_rescued_data_of_every_door_and_mode(
    landed,
    lake,
    spark,
    rows,
    tmp_path,
):
    loads = {
        "copied": lambda folder: copy_into("web.bronze.a", folder, "json", spark=spark).load,
        "declared": lambda folder: autoload_to_table(folder, "json", "web.bronze.b", tmp_path / "b",
                                                     schema="id INT, v INT", spark=spark),
        "selected": lambda folder: copy_into("web.bronze.c", folder, "json", select=["*", "id + 1 AS next"],
                                             spark=spark).load,
    }  # fmt: skip
    for name, load in loads.items():
        load(landed(**{f"{name}/a__json": '{"id":1,"v":6}\n'}) / name)
        done = load(landed(**{f"{name}/b__json": '{"id":2,"V":7}\n'}) / name)
        assert [rescued(row) for row in sorted(rows(done), key=lambda r: r["id"])] == [{}, {"V": 7}], name
        assert done.values_unaccounted == {}


@pytest.mark.spark
def test_a_declared_schema_keeps_unknown_fields_and_still_refuses_a_mistyped_record(
    landed,
    lake,
    spark,
    rows,
    refused,
    tmp_path,
):
    def load(name, source_format, text, **options):
        folder = landed(**{f"{name}/a__{source_format}": text})
        return autoload_to_table(folder / name, source_format, f"web.bronze.{name}", tmp_path / name,
                                 schema="id INT", spark=spark, **options)  # fmt: skip

    lines = load("lines", "json", '{"id":1,"more":true}\n{"id": "x", "more": 2}\n')
    cells = load("cells", "csv", "id,more\n1,a\nx,b\n")
    quotes = load("quotes", "csv", 'id,more\n1,"a"\nx,"b"\n')
    assert [rescued(row) for row in rows(lines)] == [{"more": True}]
    assert [row for row, _ in refused(lines)] == ['{"id": "x", "more": 2}']
    for done in (cells, quotes):
        assert [rescued(row) for row in rows(done)] == [{"more": "a"}]
        assert done.rows_quarantined == 1
    without = load("without", "json", '{"id":1,"more":true}\n', rescued_data_column="")
    assert rows(without) == [{"id": 1}]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("a AS _batch_id", "no column can be called '_batch_id'"),
        ("a AS _ingested_at", "no column can be called '_ingested_at'"),
        ("a AS _Source_File", "no column can be called '_Source_File'"),
        ("upper(a)", "has no name"),
        ("explode(a) AS e", "several rows, or none"),
        ("posexplode_outer(a)", "several rows, or none"),
        ("count(*) AS n", "more than its own record"),
        ("row_number() OVER (ORDER BY a) AS n", "more than its own record"),
        ("a IN (SELECT b FROM t) AS z", "more than its own record"),
        ("input_file_name() AS f", "_metadata.file_path"),
        ("CAST(a AS", "is not SQL"),
    ],
)
def test_a_select_column_that_would_lose_something_is_refused_before_anything_is_read(
    landed, lake, column, words
):
    with pytest.raises(SourceError, match=words):
        copy_into("web.bronze.c", landed(a__csv="a\n1\n"), "csv", select=["a", column])


@pytest.mark.parametrize("select", [["a AS x", "b AS X"], ["a", "a"]])
def test_two_select_columns_of_one_name_are_refused(landed, lake, select):
    with pytest.raises(SourceError, match="two select columns"):
        copy_into("web.bronze.c", landed(a__csv="a,b\n1,2\n"), "csv", select=select)


@pytest.mark.spark
def test_a_rescued_value_goes_into_its_column_only_where_it_stays_the_same_value(
    landed, autoload, rows, spark
):
    columns = {"i": "BIGINT", "d": "DECIMAL(9,2)", "f": "DOUBLE", "b": "BOOLEAN", "t": "DATE"}
    values = {
        "i": (1.9, "7"),
        "d": (1.239, "1.20"),
        "f": (9007199254740993, "1e3"),
        "b": (5, "true"),
        "t": ("soon", "2024-02-29"),
    }
    lines = [{"id": f"{name}{n}", name: value} for name in values for n, value in enumerate(values[name])]
    twice = '"i": 4, "x": 1, "x": 2'
    letters = '"i": 5, "x": 1.10, "y": 1e400, "f": 123456789012345678901234567890123456789012.50, "n": [1.0]'
    text = "".join(json.dumps(line) + "\n" for line in lines)
    text += f'{{"id": "twice", {twice}}}\n{{"id": "letters", {letters}}}\n{{"id": "again", "i": 6, "i": 7}}\n'
    done = autoload(
        landed(a__json=text), "json", schema="id STRING", schema_evolution_mode="none", mistyped="RESCUE"
    )
    table = f"delta.`{done.path}`"
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({', '.join(' '.join(pair) for pair in columns.items())})")
    before = {row["id"]: rescued(row) for row in rows(done)}
    assert before["i0"] == {"i": 1.9}
    source = Source("t", "json", mistyped="RESCUE")
    transaction = Transaction("t/unrescue/1", 0, {"run_id": "1", "table": "t"})
    assert unrescue(spark, done.path, source, (), transaction, False) == len(columns) + 2
    after = {row["id"]: row for row in rows(done)}
    for name in columns:
        assert (after[f"{name}0"][name], rescued(after[f"{name}0"])) == (None, before[f"{name}0"])
        assert after[f"{name}1"][name] is not None
        assert after[f"{name}1"]["_rescued_data"] is None
    assert (after["twice"]["i"], after["letters"]["i"], after["again"]["i"]) == (4, 5, None)
    assert after["twice"]["_rescued_data"].count('"x"') == after["again"]["_rescued_data"].count('"i"') == 2
    # What stays rescued stays to the letter.
    rest = after["letters"]["_rescued_data"].rpartition(',"_file_path"')[0]
    assert rest.replace('": ', '":').replace(", ", ",") == "{" + letters.replace(" ", "").partition(",")[2]


ELEMENTS = [
    "<a>1</a>", "<a>1</a><a>2</a>", "<a>x</a>", "<s>x</s>", "<s><n>7</n></s>", '<s k="2">007</s>', "<a/><t/>",
    "<b>true</b>", "<b>yes</b>", "<a>1</a><b>false</b><s>1.10</s>", "<d>1.239</d>", "<d>1.2</d>",
    "<t>1.10</t>",
]  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("known", [{"schema": "_id STRING"}, {}])
def test_a_rescued_xml_element_goes_into_its_column_where_a_load_with_that_column_takes_it(
    landed, autoload, rows, spark, known
):
    columns = "a ARRAY<INT>, s STRUCT<_VALUE: STRING, n: ARRAY<INT>, _k: INT>, b BOOLEAN, d DECIMAL(9,2)"
    columns += ", t STRING"
    options = {"rowTag": "r", "schema_evolution_mode": "rescue"}
    # The first file fixes the columns; without a schema they are text, and numbers are rescued as strings.
    autoload(landed(first__xml='<p><r id="first"/></p>'), "xml", **options, **known)
    body = "".join(f'<r id="{n}">{element}</r>' for n, element in enumerate(ELEMENTS))
    done = autoload(folder := landed(second__xml=f"<p>{body}</p>"), "xml", **options, **known)
    assert all(rescued(row) for row in rows(done) if row["_id"] != "first")
    spark.sql(f"ALTER TABLE delta.`{done.path}` ADD COLUMNS ({columns})")
    source = Source("t", "xml", reader_options={"rowTag": "r"})
    transaction = Transaction("t/unrescue/1", 0, {"run_id": "1", "table": "t"})
    unrescue(spark, done.path, source, (), transaction, False)
    wanted = autoload(folder, "xml", "wanted", **options, schema=f"_id STRING, {columns}")
    found, expected = (
        {r["_id"]: {**r, "_rescued_data": {k: str(v) for k, v in rescued(r).items()}} for r in rows(load)}
        for load in (done, wanted)
    )
    assert found == expected
