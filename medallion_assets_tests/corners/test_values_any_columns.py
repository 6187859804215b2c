"""Random file types under random declared types, in Parquet, ORC and Avro: each value is in one place.

Two files of one load have a column in types of their own. What was put into them is held against the table:
a value is in its column, or as JSON in the rescued data, or its record is quarantined with all its values.
Where the declared type holds every value of the file's, it is in its column.
"""

import base64
import binascii
import datetime as dt
import io
import json
import math
from decimal import Decimal, InvalidOperation

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from medallion_assets.delta import log
from medallion_assets.sources import autoload_to_table
from medallion_assets_tests.examples import FACTOR, examples

pytestmark = pytest.mark.spark
UTC = dt.timezone.utc
WHOLE = {f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)}
WHOLE |= {f"uint{bits}": (0, 2**bits - 1) for bits in (8, 32, 64)}
EIGHTHS = st.integers(-(2**20), 2**20).map(lambda n: n / 8)
NOT_FINITE = st.sampled_from([math.nan, math.inf, -math.inf, -0.0])
TEXTS = st.sampled_from(["", "1", "true", "2024-01-01", "é", "x y", "{}", '"'])
TIMES = st.datetimes(dt.datetime(1600, 1, 1), dt.datetime(9999, 1, 1))


def decimals(digits, scale):
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-scale))


TYPES = {
    **{name: (getattr(pa, name)(), st.integers(*ends)) for name, ends in WHOLE.items()},
    "float32": (pa.float32(), EIGHTHS | NOT_FINITE),
    "float64": (pa.float64(), st.floats(width=64) | EIGHTHS),
    "decimal(9,2)": (pa.decimal128(9, 2), decimals(9, 2)),
    "decimal(20,0)": (pa.decimal128(20, 0), decimals(20, 0)),
    "decimal(28,10)": (pa.decimal128(28, 10), decimals(28, 10)),
    "bool": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates(dt.date(1600, 1, 1), dt.date(9999, 1, 1))),
    "local": (pa.timestamp("us"), TIMES),
    "instant": (pa.timestamp("us", "UTC"), TIMES.map(lambda at: at.replace(tzinfo=UTC))),
    "string": (pa.string(), TEXTS),
    "binary": (pa.binary(), st.sampled_from([b"", b"x", b"\xff\x00", "é".encode()])),
    "list": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(-9, 9), max_size=3)),
    "longs": (pa.list_(pa.int64()), st.lists(st.integers(-(2**40), 2**40), max_size=2)),
    "struct": (
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        st.fixed_dictionaries({"x": st.none() | st.integers(-9, 9), "y": st.none() | TEXTS}),
    ),
    "map": (pa.map_(pa.string(), pa.int32()), st.dictionaries(TEXTS, st.integers(-9, 9), max_size=2)),
}
SMALL, MEDIUM = ["int8", "uint8", "int16"], ["int8", "uint8", "int16", "int32"]
LONG = [*MEDIUM, "uint32", "int64"]
HOLDS = {
    "TINYINT": ["int8"],
    "SMALLINT": SMALL,
    "INT": MEDIUM,
    "BIGINT": LONG,
    "FLOAT": ["float32"],
    "DOUBLE": [*MEDIUM, "float32", "float64"],
    "DECIMAL(9,2)": ["int8", "uint8", "int16", "decimal(9,2)"],
    "DECIMAL(20,0)": [*LONG, "uint64", "decimal(20,0)"],
    "DECIMAL(38,10)": [*LONG, "uint64", "decimal(9,2)", "decimal(20,0)", "decimal(28,10)"],
    "BOOLEAN": ["bool"],
    "DATE": ["date"],
    "TIMESTAMP": ["instant"],
    "TIMESTAMP_NTZ": ["local", "date"],
    "STRING": [name for name in TYPES if name != "binary"],
    "BINARY": ["binary"],
    "ARRAY<INT>": ["list"],
    "ARRAY<BIGINT>": ["list", "longs"],
    "ARRAY<STRING>": ["list", "longs"],
    "STRUCT<x: INT, y: STRING>": ["struct"],
    "STRUCT<y: STRING, x: BIGINT, z: DATE>": ["struct"],
    "STRUCT<y: STRING>": [],
    "MAP<STRING, INT>": ["map"],
    "MAP<STRING, STRING>": ["map"],
    "MAP<INT, INT>": [],
}
"""By declared type the file types of which it holds every value."""

AVRO = {
    "int32": "int", "int64": "long", "float32": "float", "float64": "double", "bool": "boolean",
    "string": "string", "binary": "bytes", "date": {"type": "int", "logicalType": "date"},
    "instant": {"type": "long", "logicalType": "timestamp-micros"},
    "local": {"type": "long", "logicalType": "local-timestamp-micros"},
    "list": {"type": "array", "items": ["null", "int"]}, "longs": {"type": "array", "items": "long"},
    "map": {"type": "map", "values": "int"},
    **{f"decimal({p},{s})": {"type": "bytes", "logicalType": "decimal", "precision": p, "scale": s}
       for p, s in ((9, 2), (20, 0), (28, 10))},
}  # fmt: skip
ORC_LACKS = {"uint8", "uint32", "uint64"}


def parquet(kinds, rows):
    return written(kinds, rows, pq.write_table)


def orc(kinds, rows):
    return written(kinds, rows, pyarrow.orc.write_table)


def written(kinds, rows, write):
    columns = {"k": pa.array([str(row["k"]) for row in rows])}
    for name, kind in kinds.items():
        values = [row[name] for row in rows]
        values = [[*value.items()] if kind == "map" and value is not None else value for value in values]
        columns[name] = pa.array(values, TYPES[kind][0])
    out = io.BytesIO()
    write(pa.table(columns), out)
    return out.getvalue()


def avro(kinds, rows):
    def kind_of(name, kind):
        record = {"type": "record", "name": f"r_{name}", "fields": [
            {"name": "x", "type": ["null", "int"]}, {"name": "y", "type": ["null", "string"]}
        ]}  # fmt: skip
        return ["null", record if kind == "struct" else AVRO[kind]]

    fields = [{"name": "k", "type": "string"}]
    fields += [{"name": name, "type": kind_of(name, kind)} for name, kind in kinds.items()]
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, rows)
    return out.getvalue()


FILE_TYPES = {
    parquet: list(TYPES),
    orc: [name for name in TYPES if name not in ORC_LACKS],
    avro: [*AVRO, "struct"],
}


def held_by(column, write):
    """Return the file types of a format of which a declared type holds every value."""
    kinds = HOLDS[column]
    if write is orc and column.startswith("TIMESTAMP"):
        # Spark takes both of ORC's types of times for instants.
        kinds = ["instant", "local"] if column == "TIMESTAMP" else ["date"]
    return [kind for kind in kinds if kind in FILE_TYPES[write]]


@st.composite
def landings(draw, write):
    """Declared types, and two files: the type each column has in it, and its rows."""
    declared = draw(st.lists(st.sampled_from(list(HOLDS)), min_size=1, max_size=5))
    files = []
    for place in range(2):
        kinds = {}
        for n, column in enumerate(declared):
            any_kind = st.sampled_from(FILE_TYPES[write])
            fit = held_by(column, write)
            kinds[f"c{n}"] = draw(any_kind | st.sampled_from(fit) if fit else any_kind)
        values = st.fixed_dictionaries({name: st.none() | TYPES[kind][1] for name, kind in kinds.items()})
        rows = draw(st.lists(values, min_size=1, max_size=6))
        files.append((kinds, [{"k": f"{place}-{n}"} | row for n, row in enumerate(rows)]))
    return {f"c{n}": column for n, column in enumerate(declared)}, files, draw(st.booleans())


def is_same(found, value):
    """Return whether a value of a table, or of JSON, is what was written to a file."""
    if value is None or found is None:
        return value is found
    if isinstance(value, bool):
        return found in (str(value), str(value).lower()) or found is value
    if isinstance(value, (int, Decimal)):
        return not isinstance(found, bool) and number(found) == value
    if isinstance(value, float):
        told = found.replace("Infinity", "inf") if isinstance(found, str) else found
        return float(told) == value or (math.isnan(value) and math.isnan(float(told)))
    if isinstance(value, bytes):
        return found == value or (isinstance(found, str) and value in (found.encode(), decoded(found)))
    if isinstance(value, dt.datetime):
        at = dt.datetime.fromisoformat(found) if isinstance(found, str) else found
        at = at if isinstance(at, dt.datetime) else dt.datetime.combine(at, dt.time())
        return (
            at.astimezone(UTC).replace(tzinfo=None) == value.replace(tzinfo=None)
            if at.tzinfo
            else (at == value.replace(tzinfo=None))
        )
    if isinstance(value, dt.date):
        at = dt.datetime.fromisoformat(found) if isinstance(found, str) else found
        return (at if isinstance(at, dt.datetime) else dt.datetime.combine(at, dt.time())).replace(
            tzinfo=None
        ) == dt.datetime.combine(value, dt.time())
    if isinstance(value, str):
        return found == value
    found = json.loads(found, parse_float=str) if isinstance(found, str) else found
    if isinstance(value, list):
        return len(found) == len(value) and all(map(is_same, found, value))
    pairs = dict(found)
    return all(is_same(pairs.get(name), inner) for name, inner in value.items()) and not any(
        inner is not None for name, inner in pairs.items() if name not in value
    )


def number(found):
    try:
        return Decimal(str(found))
    except InvalidOperation:
        return None


def decoded(text):
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


@pytest.mark.parametrize("write", FILE_TYPES)
def test_a_value_of_any_file_type_is_in_its_column_or_rescued_or_quarantined(
    tmp_path_factory, monkeypatch, spark, write
):
    @given(landing=landings(write))
    @examples(4, suppress_health_check=list(HealthCheck), derandomize=FACTOR == 1)
    def hold(landing):
        columns, files, rescues = landing
        folder = tmp_path_factory.mktemp("columns")
        monkeypatch.setenv("MEDALLION_LAKE", str(folder / "lake"))
        (folder / "in").mkdir()
        for number, (kinds, rows) in enumerate(files):
            (folder / "in" / f"{number}.{write.__name__}").write_bytes(write(kinds, rows))
        schema = ", ".join(f"`{name}` {column}" for name, column in {"k": "STRING", **columns}.items())
        done = autoload_to_table(
            folder / "in", write.__name__, "t", folder / "check", spark=spark, schema=schema,
            rescued_data_column="_rescued_data" if rescues else "",
        )  # fmt: skip
        assert (done.files, done.rows_unaccounted, done.values_unaccounted) == (2, 0, {}), done
        there = {r["k"]: r for r in spark.read.format("delta").load(str(done.path)).toArrow().to_pylist()}
        texts = log.rows(done.quarantine, "SELECT row FROM t") if done.quarantine.exists() else []
        held = {row["k"]: row for row in (json.loads(text["row"], parse_float=str) for text in texts)}
        assert there.keys().isdisjoint(held)
        assert sorted([*there, *held]) == sorted(row["k"] for _, rows in files for row in rows)
        assert not (rescues and held)
        for kinds, rows in files:
            fits = {name for name, kind in kinds.items() if kind in held_by(columns[name], write)}
            for row in rows:
                if row["k"] in held:
                    assert any(row[name] is not None for name in kinds if name not in fits), (
                        columns,
                        kinds,
                        row,
                    )
                found = held.get(row["k"]) or there[row["k"]]
                left = json.loads(found.get("_rescued_data") or "{}", parse_float=str)
                for name, kind in kinds.items():
                    where = (columns[name], kind, row[name], found)
                    is_left = row["k"] in there and name in left
                    assert is_same(left[name] if is_left else found.get(name), row[name]), where
                    assert not (is_left and (name in fits or found[name] is not None)), where

    hold()
