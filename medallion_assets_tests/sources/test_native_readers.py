"""Files on which a reader of native code would end the whole process: they are refused, or read otherwise."""

import bz2
import json
from collections import Counter
from datetime import datetime, timezone
from random import Random

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from medallion_assets.sources.counting import contents
from medallion_assets.sources.discovery import discover
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats import trial_reads
from medallion_assets.sources.formats.exact_copy import copy_exactly
from medallion_assets.sources.formats.json_inference import inferred
from medallion_assets.sources.ledger import ADMITTED, REFUSED, Entry
from medallion_assets.sources.ledger import rows as ledger_rows
from medallion_assets.sources.options import Source
from medallion_assets.sources.value_counts import count_values
from medallion_assets_tests.examples import FACTOR, examples

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
VALUES = ["null", "true", "1", '"x"', "[]", "[null]", "{}", '{"a":1}', '{"a":null}', '{"a":[1]}', '{"b":"c"}']
BLANKS = ["", " ", "\t", "\n", "\r\n", "\ufeff"]
MUTANTS = 150


def entry(path, source):
    inside = contents(path, source)
    facts = (inside.tag, inside.records, inside.layout, inside.header, ADMITTED, "")
    return Entry(str(path), path.stat().st_size, NOW, *facts, NOW)


def objects(text):
    """Return the objects on a text's lines, as Python reads them."""
    read = []
    for line in text.removeprefix("\ufeff").splitlines():
        try:
            read.append(json.loads(line))
        except ValueError:
            continue
    return [value for value in read if isinstance(value, dict)]


@given(lines=st.lists(st.tuples(st.sampled_from(BLANKS), st.sampled_from(VALUES)), min_size=1, max_size=6))
@example(lines=[("", "null")])
@example(lines=[("", "null"), ("", '{"a":1}')])
@example(lines=[("\ufeff", "null"), ("", '{"a":1}')])
@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_that_begins_with_null_or_any_value_is_counted_and_inferred(tmp_path, lines):
    path, source = tmp_path / "a.json", Source("s", "json", reader_options={"multiLine": "false"})
    text = "".join(f"{blank}{value}\n" for blank, value in lines)
    path.write_text(text)
    expected = Counter(k for found in objects(text) for k, value in found.items() if value is not None)
    file = entry(path, source)
    if "\ufeff" not in text[1:]:
        assert +count_values(file, source).values == expected
        assert set(inferred([file], source).names) == {key for found in objects(text) for key in found}


def columnar(path, kind):
    numbers = range(40)
    table = pa.table({
        "i": pa.array([n if n % 3 else None for n in numbers], pa.int64()),
        "s": [f"s{n}" for n in numbers],
        "t": pa.array([n * 1_000_000_000 for n in numbers], pa.timestamp("ns")),
        "l": [[n] * (n % 3) for n in numbers],
        "o": [{"x": n} if n % 4 else None for n in numbers],
    })  # fmt: skip
    write = pq.write_table if kind == "parquet" else pa.orc.write_table
    write(table, str(path))
    return path.read_bytes()


def damaged(whole, chance):
    spoilt = bytearray(whole)
    for _ in range(chance.choice((1, 1, 2, 4))):
        # The last part tells the readers how to go on; the part before it holds the values.
        at = chance.randrange(max(0, len(spoilt) - 900), len(spoilt)) if chance.random() < 0.8 else None
        at = chance.randrange(len(spoilt)) if at is None else at
        spoilt[at] = chance.choice((spoilt[at] ^ 1 << chance.randrange(8), 0, 255, 128))
    return bytes(spoilt)


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_columnar_file_with_any_bytes_changed_is_read_or_refused(tmp_path, kind):
    path, source, chance = tmp_path / f"a.{kind}", Source("s", kind), Random(11)
    whole = columnar(path, kind)
    fates = Counter()
    for _ in range(MUTANTS * FACTOR):
        path.write_bytes(damaged(whole, chance))
        try:
            count_values(entry(path, source), source)
            copy_exactly(path, kind, tmp_path / "copy.parquet")
            fates["read"] += 1
        except (UnreadableFile, pa.ArrowException, OSError, ValueError):
            fates["refused"] += 1
    assert all(fates[fate] for fate in ("read", "refused")), fates


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_file_that_ends_its_reader_is_refused_by_name_and_those_beside_it_are_taken(
    tmp_path, monkeypatch, kind
):
    deadly = trial_reads.PROGRAM.replace(
        "    try:\n        {", '    if "deadly" in path:\n        import os; os.abort()\n    try:\n        {'
    )
    assert deadly != trial_reads.PROGRAM
    trial_reads._ended()
    monkeypatch.setattr(trial_reads, "PROGRAM", deadly)
    zone = tmp_path / "zone"
    zone.mkdir()
    for name in ("a", "deadly", "z"):
        columnar(zone / f"{name}.{kind}", kind)
    found = discover(zone, tmp_path / "ledger", Source("s", kind))
    assert (found.admitted, found.refused) == (2, 1)
    (row,) = ledger_rows(tmp_path / "ledger", f"SELECT path, reason FROM ledger WHERE status = '{REFUSED}'")
    assert row["path"] == f"deadly.{kind}"
    assert row["reason"].endswith("its bytes end the process that reads them (SIGABRT)")
    trial_reads._ended()


def test_a_reader_that_is_killed_from_outside_refuses_no_file(tmp_path, monkeypatch):
    once = tmp_path / "once"
    killed = trial_reads.PROGRAM.replace(
        "    try:\n        {",
        f"    import os, pathlib, signal\n    if not (once := pathlib.Path({str(once)!r})).exists():\n"
        "        once.touch()\n        os.kill(os.getpid(), signal.SIGKILL)\n    try:\n        {",
    )
    trial_reads._ended()
    monkeypatch.setattr(trial_reads, "PROGRAM", killed)
    zone = tmp_path / "zone"
    zone.mkdir()
    columnar(zone / "a.parquet", "parquet")
    found = discover(zone, tmp_path / "ledger", Source("s", "parquet"))
    assert once.exists()
    assert (found.admitted, found.refused) == (1, 0)
    trial_reads._ended()


@pytest.mark.parametrize("kind", ["json", "csv", "xml"])
def test_a_number_of_more_digits_than_python_takes_stops_no_discovery(tmp_path, kind):
    digits = "7" * 5000
    text = {
        "json": f'{{"n": {digits}}}\n{{"n": -{digits}}}\n',
        "csv": f"n\n{digits}\n-{digits}\n",
        "xml": f"<r><row><n>{digits}</n></row><row><n>-{digits}</n></row></r>",
    }[kind]
    zone = tmp_path / "zone"
    zone.mkdir()
    (zone / f"a.{kind}").write_text(text)
    source = Source(
        "s", kind, infer_column_types=True, reader_options={"rowTag": "row"} if kind == "xml" else {}
    )
    found = discover(zone, tmp_path / "ledger", source)
    assert (found.admitted, found.refused, found.records) == (1, 0, 2)


def test_a_header_that_begins_as_bz2_does_is_no_compressed_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("BZh1,name\n1,x\n")
    assert contents(path, Source("s", "csv")).records == 1
    path.with_suffix(".csv.bz2").write_bytes(bz2.compress(path.read_bytes()))
    assert contents(path.with_suffix(".csv.bz2"), Source("s", "csv")).records == 1


@pytest.mark.parametrize("other", ["long", {"type": "long", "logicalType": "timestamp-micros"}])
def test_an_avro_union_that_does_not_say_whether_a_value_is_a_date_is_refused(tmp_path, other):
    of = ["null", {"type": "int", "logicalType": "date"}, other]
    schema = {"type": "record", "name": "r", "fields": [{"name": "d", "type": of}]}
    path = tmp_path / "a.avro"
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"d": None}])
    with pytest.raises(UnreadableFile, match="a union of int and long"):
        contents(path, Source("s", "avro"))


def test_avro_records_without_fields_are_refused(tmp_path):
    path = tmp_path / "a.avro"
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": []}, [{}, {}])
    with pytest.raises(UnreadableFile, match="have no fields"):
        contents(path, Source("s", "avro"))


def test_values_beside_a_key_that_is_no_utf_8_are_counted(tmp_path):
    path, source = tmp_path / "a.json", Source("s", "json")
    path.write_bytes(b'{"a": 1, "k\xff": 2}\n{"a": 3}\n')
    found = count_values(entry(path, source), source)
    assert (found.reason, found.values["a"]) == ("", 2)
