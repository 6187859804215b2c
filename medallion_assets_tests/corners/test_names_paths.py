"""Lakes, landing zones and folders of any name."""

import pytest
from typer.testing import CliRunner

from medallion_assets.cli.app import app
from medallion_assets.delta import log
from medallion_assets.delta.errors import UnusablePath
from medallion_assets.sources import autoload_to_table
from medallion_assets.sources.partitions import partition_keys
from medallion_assets_tests.corners.test_values_columnar import COLUMNS, parquet

ODD = "ödd #1? + {y} * & 100% it's"


@pytest.mark.spark
def test_a_lake_and_a_landing_zone_of_odd_names_load_every_format(tmp_path, monkeypatch, spark):
    monkeypatch.setenv("MEDALLION_LAKE", str(tmp_path / ODD / "lake"))
    landing = tmp_path / "my%20landing [x] a|b ^" / "above=1" / ODD
    contents = {
        "json": b'{"a": 1, "ts": "2026-01-01"}\n',
        "csv": b'a,ts\n"1",2026-01-01\n',
        "parquet": parquet({"a": [1], "ts": COLUMNS["ns"][1:]}),
    }
    for kind, text in contents.items():
        for folder in ("plain", "env=prod#1%2B2", ODD):
            path = landing / kind / folder / f"{folder[:5]} %41 f.{kind}"
            path.parent.mkdir(parents=True)
            path.write_bytes(text)
        options = {"infer_column_types": True} if kind == "json" else {}
        checkpoint = tmp_path / ODD / "checkpoints" / kind
        done = autoload_to_table(
            landing / kind, kind, f"web.bronze.{kind}", checkpoint, spark=spark, **options
        )
        assert (done.files, done.rows_loaded, done.rows_unaccounted, done.rows_quarantined) == (3, 3, 0, 0)
        rows = log.rows(done.path, "SELECT * FROM t")
        files = {str(p.relative_to(landing / kind)) for p in (landing / kind).rglob("*.*")}
        assert {row["_source_file"] for row in rows} == files
        assert "above" not in rows[0]
        assert sorted(str(row["env"]) for row in rows) == ["None", "None", "prod#1+2"]


@pytest.mark.parametrize("folder", ["my%20lake", "per%cent", "back\\slash", "[x]", "a|b", "a^b"])
def test_a_lake_no_log_reader_can_open_is_refused_by_its_name(folder, tmp_path):
    (tmp_path / folder / "t" / "_delta_log").mkdir(parents=True)
    for ask in (log.exists, log.version, log.opened):
        with pytest.raises(UnusablePath) as refused:
            ask(tmp_path / folder / "t")
        assert str(tmp_path / folder) in str(refused.value)
        assert "rename" in str(refused.value)


def test_a_run_and_an_audit_of_such_a_lake_name_it_and_do_not_say_that_all_is_well(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDALLION_LAKE", str(tmp_path / "my%20lake"))
    monkeypatch.setenv("MEDALLION_LANDING", str(tmp_path / "landing"))
    (tmp_path / "landing/school/courses").mkdir(parents=True)
    for command in (["run", "school/bronze/courses"], ["audit", "school/bronze/courses"]):
        said = CliRunner().invoke(app, command)
        assert said.exit_code != 0, said.output
        # Long paths are folded anywhere, in cells of a table, too.
        told = "".join(said.output.replace("│", "").split())
        assert "my%20lake" in told, told
        assert "rename" in told, told
        assert "llwell" not in told, told


def test_folders_that_differ_in_case_or_have_a_name_of_ours_make_no_second_column():
    class Source:
        partition_columns = None

    assert partition_keys(["day=1/Env=x/env=y/_reason=y/f=1.json"], Source) == ["day", "Env"]
