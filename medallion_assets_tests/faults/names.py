"""Faults of names and sizes from outside: what climbs, ends a quote, leads away, unpacks (S2 to S4, S9)."""

import gzip
import json

import pytest

from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.sources import autoload_to_table, copy_into
from medallion_assets.sources.errors import SourceError
from medallion_assets_tests.faults.landing import status_of
from medallion_assets_tests.faults.trial import fault
from medallion_assets_tests.shop import json_lines

CLIMBING = [
    "../up", "a/../../b", "/etc/passwd", "%2e%2e/up", "..\\up", "a`b", "a'b", 'a"b', "a;DROP TABLE t", "..",
    ".", "", "a\0b", "-a",
]  # fmt: skip
FIELDS = ["a`b", "a'b", 'a"b', "a;b", "a b", "$(id)", "--", "a.b", "<b>", "{x}", "select", "a=b", "%s", "é"]
GIGABYTE = 1 << 30


@fault("S2", f"{len(CLIMBING)} names that climb or end a quote, as tables and as files", "refused by name")
def climbing_names(trial):
    trial.send()
    trial.go()
    before = sorted(trial.lake.root.parent.iterdir())
    for name in CLIMBING:
        for whole in (f"shop.bronze.{name}", f"{name}.bronze.orders"):
            with trial.patched(), pytest.raises(ValueError, match="names no table"):
                copy_into(whole, trial.zone, "json")
        with trial.patched(), pytest.raises(SourceError, match="below the source"):
            copy_into("shop.bronze.copied", trial.zone, "json", files=[f"../{name}"])
        told = VERBS["reprocess"](
            trial.tables[0], trial.lake, trial._spark, VerbRequest(files=(f"../{name}",))
        )
        assert not told.found, told.does
    assert sorted(trial.lake.root.parent.iterdir()) == before, "something lies beside the lake"
    return trial.holds()


@fault("S3", "links out of the landing zone, to a file and to a folder, by folder and by glob", "refused")
def links_out(trial):
    outside = trial.lake.settings.landing.parent / "outside"
    outside.mkdir()
    (outside / "secret.json").write_text('{"id": 424242, "total": 1}\n')
    (trial.zone / "link.json").symlink_to(outside / "secret.json")
    (trial.zone / "linked.json").symlink_to(outside)
    trial.send()
    trial.go()
    assert {status_of(trial, name) for name in ("link.json", "linked.json")} == {"refused"}
    assert not trial.rows(trial.tables[0], "SELECT id FROM t WHERE id = 424242")
    for pattern in ("**", "*/*.json"):
        with trial.patched():
            copied = copy_into("shop.bronze.copied", trial.zone / pattern, "json")
    rows = trial._spark().table("shop.bronze.copied") if copied.num_inserted_rows else None
    assert rows is None or not rows.where("id = 424242").count()
    return trial.holds()


@fault("S4", f"{len(FIELDS)} field names of SQL, shell and markup, and files named so", "data, to the letter")
def sql_in_names(trial):
    zone, record = trial.zone.with_name("fields"), {field: f"'; DROP TABLE {field}" for field in FIELDS}
    zone.mkdir()
    for name in FIELDS:
        (zone / f"{name}.json").write_text(json_lines(record))
    check = str(trial.lake.root.parent / "check")
    with trial.patched():
        done = autoload_to_table(str(zone), "json", "shop.bronze.fields", check)
    assert done.rows_loaded == len(FIELDS), done
    # No column can have a backtick in its name: such a field is rescued.
    kept = {field: value for field, value in record.items() if "`" not in field}
    columns = [f"`{field}`" for field in kept]
    rows = trial._spark().table("shop.bronze.fields").select(*columns, "_rescued_data").collect()
    assert {tuple(row)[:-1] for row in rows} == {tuple(kept.values())}
    for row in rows:
        rescued = json.loads(row["_rescued_data"])
        assert {field: rescued.get(field) for field in record.keys() - kept.keys()} == {
            field: value for field, value in record.items() if field not in kept
        }
    return f"{done.files} files, {len(kept)} columns and a rescued field, each value as it was"


@fault("S9", "a megabyte of gzip that is a line of a gigabyte, and a line of 64 MB", "refused; quarantined")
def bombs(trial):
    with gzip.open(trial.zone / "bomb.json.gz", "wb", compresslevel=1) as file:
        for _ in range(GIGABYTE >> 20):
            file.write(bytes(1 << 20))
    trial.land("shop/orders", "long.json", '{"id": 1, "x": "' + "x" * (64 << 20) + '"}\n' + trial.text())
    trial.malformed += 1
    trial.go()
    assert status_of(trial, "bomb.json.gz") == "refused"
    return trial.holds()
