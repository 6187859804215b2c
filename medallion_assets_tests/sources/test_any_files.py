"""Files of each format made at random, whole, cut off or no such file: each row of the whole ones, once."""

import io
from collections import Counter
from xml.sax.saxutils import escape

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medallion_assets.delta import log
from medallion_assets.sources import autoload_to_table

pytestmark = pytest.mark.spark
# What XML can hold: no control characters, no lone surrogates; and no blanks that a reader may trim.
WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=12)
ROWS = st.lists(st.fixed_dictionaries({"id": st.integers(0, 2**40), "of": WORDS}), min_size=1, max_size=30)
FILES = st.lists(st.tuples(ROWS, st.sampled_from(["whole", "whole", "cut", "other"])), min_size=2, max_size=8)
FIELDS = [{"name": "id", "type": "long"}, {"name": "of", "type": "string"}]


def parquet(rows):
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


def as_orc(rows):
    out = io.BytesIO()
    orc.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


def avro(rows):
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "r", "fields": FIELDS}, rows)
    return out.getvalue()


def xml(rows):
    told = "".join(f"<r><id>{row['id']}</id><of>{escape(row['of'])}</of></r>" for row in rows)
    return f"<all>{told}</all>".encode()


KINDS = {"parquet": parquet, "orc": as_orc, "avro": avro, "xml": xml}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(files=FILES)
def test_rows_of_whole_files_are_loaded_once_and_no_other(tmp_path_factory, monkeypatch, spark, kind, files):
    folder, wanted = tmp_path_factory.mktemp("any"), Counter()
    monkeypatch.setenv("MEDALLION_LAKE", str(folder / "lake"))
    (folder / "in").mkdir()
    for number, (rows, state) in enumerate(files):
        whole = KINDS[kind](rows)
        contents = {"whole": whole, "cut": whole[: len(whole) // 2], "other": b"\x00 something else"}[state]
        (folder / "in" / f"{number}.{kind}").write_bytes(contents)
        if state == "whole":
            wanted.update((str(row["id"]), row["of"]) for row in rows)
    options = {"rowTag": "r"} if kind == "xml" else {}
    done = autoload_to_table(folder / "in", kind, "t", folder / "check", spark=spark, **options)
    assert done.files + done.files_refused == len(files)
    assert done.rows_unaccounted == 0
    found = Counter((str(row["id"]), row["of"]) for row in log.rows(done.path, "SELECT id, of FROM t"))
    assert found == wanted if kind != "xml" else not wanted - found
