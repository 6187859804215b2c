"""Which files are taken, which are not and why: nothing is left out without a row in the ledger."""

import gzip
import json
import os

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from medallion_assets.delta import log
from medallion_assets.sources import Source, discover, unseen_files
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.counting import contents
from medallion_assets.sources.discovery import DiscoveryOptions
from medallion_assets.sources.errors import OldLedger, SourceError
from medallion_assets_tests.examples import examples

IN_ORDER = "SELECT * FROM ledger ORDER BY sequence"
JSON = Source("things", "json", schema="a INT")


@pytest.fixture
def zone(tmp_path):
    folder = tmp_path / "landing"
    folder.mkdir()
    return folder


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "ledger"


def look(zone, ledger, source=JSON):
    discover(zone, ledger, source)
    return {r["path"].rpartition("/")[2]: r["status"] for r in ledgers.rows(ledger, IN_ORDER)}


def test_a_file_is_admitted_once_with_its_count_of_records(zone, ledger):
    (zone / "a.json").write_text('{"a":1}\n\n{"a":2}\r\n{"a":3}')
    assert discover(zone, ledger, JSON).records == 3
    assert discover(zone, ledger, JSON).admitted == 0
    assert [(r["records"], r["layout"]) for r in ledgers.rows(ledger)] == [(3, "lines")]


def test_hidden_and_half_copied_names_wait_and_odd_ones_are_taken(zone, ledger):
    for name in ("_x.json", ".x.json", "x.json.tmp", "a b.json", "p%20q.json", "[1].json", "c:d.json"):
        (zone / name).write_text('{"a":1}\n')
    assert set(look(zone, ledger)) == {"a b.json", "p%20q.json", "[1].json", "c:d.json"}


def test_a_link_is_refused_with_a_reason_since_it_may_lead_out(zone, ledger, tmp_path):
    (tmp_path / "secret").write_text('{"a":1}\n')
    (zone / "s.json").symlink_to(tmp_path / "secret")
    assert look(zone, ledger) == {"s.json": "refused"}


def test_a_truncated_gzip_is_refused_and_taken_once_repaired(zone, ledger):
    whole = gzip.compress(b'{"a":1}\n' * 500)
    (zone / "z.json.gz").write_bytes(whole[:40])
    assert look(zone, ledger) == {"z.json.gz": "refused"}
    (zone / "z.json.gz").write_bytes(whole)
    assert look(zone, ledger) == {"z.json.gz": "admitted"}
    assert [r["records"] for r in ledgers.rows(ledger, "SELECT * FROM ledger WHERE status='admitted'")] == [
        500
    ]


def test_a_file_overwritten_after_it_was_taken_is_reported_as_changed(zone, ledger):
    (zone / "a.json").write_text('{"a":1}\n')
    discover(zone, ledger, JSON)
    (zone / "a.json").write_text('{"a":1}\n{"a":2}\n')
    assert look(zone, ledger) == {"a.json": "changed"}


def test_a_young_file_waits_until_it_has_settled(zone, ledger):
    (zone / "a.json").write_text('{"a":1}\n')
    assert unseen_files(zone, ledger, JSON, DiscoveryOptions(60)) == []
    os.utime(zone / "a.json", (1, 1))
    assert len(unseen_files(zone, ledger, JSON, DiscoveryOptions(60))) == 1


def test_a_micro_batch_holds_no_more_files_or_bytes_than_asked(zone, ledger):
    for i in range(7):
        (zone / f"{i}.json").write_text('{"a":1}\n')
    discover(zone, ledger, Source("things", "json", max_files_per_trigger=3))
    assert log.version(ledger) == 2


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ('[{"a":1},{"a":2}]', 2),
        ('{\n "a": 1\n}\n{\n "a": 2\n}', 2),
        ("[]", 1),
        ('[]\n{"a":1}', 2),
        ('{"a":1} {"a":2}\n{"a":3}', 2),
        # An array that is cut off: its whole elements, and what follows them.
        ('[{"a":1},', 2),
        ("not json\nat all", 2),
        ("", 0),
    ],
)
def test_records_are_counted_however_they_lie(zone, text, records):
    (zone / "a.json").write_text(text)
    assert contents(zone / "a.json", JSON).records == records


@examples(40)
@given(
    st.lists(
        st.dictionaries(st.text(max_size=5), st.integers() | st.text() | st.none(), max_size=4),
        min_size=1,
        max_size=20,
    )
)
def test_any_objects_are_counted_alike_as_lines_and_as_an_array(tmp_path_factory, objects):
    zone = tmp_path_factory.mktemp("zone")
    (zone / "lines.json").write_text("\n".join(map(json.dumps, objects)))
    (zone / "array.json").write_text(json.dumps(objects))
    assert contents(zone / "lines.json", JSON).records == len(objects)
    assert contents(zone / "array.json", JSON).records == len(objects)


@pytest.mark.parametrize(
    ("text", "records", "layout"),
    [
        ("a,b\n1,2\n\n3,4\n", 2, "cells"),
        ('a,b\n1,"two\nlines"\n', 1, "cells"),
        ('\ufeffa,b\r\n1,"x ""y"" z"\r\n', 1, "cells"),
        ('a,b\n1,"open\n2,y\n3,z\n', 3, "loose_cells"),
        ("", 0, "cells"),
    ],
)
def test_csv_records_are_counted_with_their_quotes(zone, text, records, layout):
    (zone / "a.csv").write_text(text, newline="")
    found = contents(zone / "a.csv", Source("things", "csv"))
    assert (found.records, found.layout) == (records, layout)


@pytest.mark.parametrize(
    "options",
    [
        {"format": "toml"},
        {"format": "json", "reader_options": {"sep": ";"}},
        {"format": "csv", "max_files_per_trigger": 0},
        {"format": "json", "schema": "a INT, b ARRAY<"},
    ],
)
def test_a_source_that_cannot_work_is_refused_as_it_is_declared(options):
    with pytest.raises(SourceError, match="things"):
        Source("things", **options)


def test_a_ledger_of_an_older_release_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "zone").mkdir()
    (tmp_path / "zone" / "a.json").write_text("{}\n")
    ledger = tmp_path / "ledger"
    old = pa.table({"path": ["a.json"], "size": [3], "status": ["admitted"]})
    write_deltalake(str(ledger), old)
    with pytest.raises(OldLedger, match=r"older release.* sequence.*MEDALLION_LAKE to an empty folder"):
        discover(tmp_path / "zone", ledger, Source("s", "json"))
    assert log.version(ledger) == 0
