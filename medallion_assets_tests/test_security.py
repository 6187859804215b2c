"""Names and secrets: what comes from outside climbs nowhere, and what is secret is stored nowhere."""

from pathlib import Path

import dagster as dg
import pytest

import medallion_assets
from medallion_assets.declare import Pipeline
from medallion_assets.declare.errors import DeclarationError
from medallion_assets.definitions import defs
from medallion_assets.simulators import land
from medallion_assets.sources import copy_into

REPOSITORY = Path(medallion_assets.__file__).parents[1]
CLIMBING = [
    "../up", "a/../../b", "/etc/passwd", "a.b", "a`b", "a'b", 'a"b', "a;b", "a b", "..", ".", "", "A", "a\0b",
    "\u00e9", "-a",
]  # fmt: skip


@pytest.mark.parametrize("name", CLIMBING)
def test_a_pipeline_name_that_could_climb_or_end_a_quote_is_refused_as_it_loads(name):
    shop = Pipeline(name)
    with pytest.raises(DeclarationError, match="not lower-case letters"):

        @shop.bronze()
        def orders(files=shop.landing("orders", format="json")):  # noqa: B008
            """One row per order."""
            return files


@pytest.mark.parametrize("name", [n for n in CLIMBING if n not in ("A", "a.b")])
def test_a_table_named_to_a_door_cannot_leave_the_lake(name, lake, tmp_path):
    for whole in (f"shop.bronze.{name}", f"{name}.bronze.orders"):
        with pytest.raises(ValueError, match="names no table"):
            copy_into(whole, tmp_path, "json")
    assert not lake.root.exists()


def test_nothing_we_ship_listens_to_the_world():
    shipped = [
        REPOSITORY / name
        for name in ("Makefile", "medallion_assets/templates/dagster.yaml", "workspace.yaml")
    ]
    told = "\n".join(file.read_text() for file in (*shipped, *REPOSITORY.glob("medallion_assets/**/*.py")))
    assert "0.0.0.0" not in told
    assert "-h 127.0.0.1" in told


@pytest.mark.spark
def test_a_secret_option_is_in_no_event_and_no_row_and_nothing_is_pickled(
    lake, tmp_path, monkeypatch, medallion_spark, capfd
):
    secret, home = "canary-5up3r-5ecret", tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("MEDALLION_SPARK_CONF", f'{{"spark.hadoop.fs.s3a.secret.key": "{secret}"}}')
    medallion_spark()
    land("school", lake.settings.landing, 1, with_faults=True)
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        assert defs.resolve_job_def("school_chain").execute_in_process(instance=instance).success
    kept = [f for folder in (home, lake.root) for f in folder.rglob("*") if f.is_file()]
    assert any(f.suffix == ".db" for f in kept)
    assert [f for f in kept if secret.encode() in f.read_bytes()] == []
    assert [f for f in kept if "pickle" in f.name] == []
    assert secret not in "".join(capfd.readouterr())
