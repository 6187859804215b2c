"""The event log as Prometheus reads it."""

import pytest
from typer.testing import CliRunner

from medallion_assets.cli import app
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.events import Backlog, Work, append_event
from medallion_assets.reports.metrics import metrics


def values(text):
    """The samples of a text, by name and labels."""
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def test_metrics_tell_counts_failures_and_the_last_run_of_each_table(lake, tmp_path):
    pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")
    batches = [
        Batch(0, read=5, written=3, quarantined=2, files=1),
        Batch(1, read=4, written=4, quarantined=0),
    ]
    for work in (
        Work("a", batches, 2.5, Backlog(60, 3, 10)),
        Work("b", (), 0.5, error=ValueError("no value of a row may be told")),
    ):
        append_event(lake.root, "shop/bronze/orders", lake.root / "shop", work)
    done = CliRunner().invoke(app, ["metrics", "--file", str(tmp_path / "medallion.prom")])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "medallion.prom").read_text()
    assert text == metrics(lake.root)
    found, of = values(text), '{table="shop/bronze/orders"}'
    assert found[f"medallion_rows_written_total{of}"] == 7
    assert found[f"medallion_rows_quarantined_total{of}"] == 2
    assert found[f"medallion_runs_total{of}"] == 2
    assert found[f"medallion_failures_total{of}"] == 1
    assert found[f"medallion_last_seconds{of}"] == 0.5
    assert found[f"medallion_last_run_timestamp_seconds{of}"] > 0
    assert "row may be told" not in text


def test_metrics_of_an_empty_lake_are_none(lake):
    pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")
    assert values(metrics(lake.root)) == {}
