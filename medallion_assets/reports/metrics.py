"""The event log as metrics in Prometheus's text format, for node_exporter's textfile collector or a page."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medallion_assets.delta import events, log

BATCH = f"event = '{events.MICRO_BATCH}'"
SUMS = {
    "rows_read": "Rows that micro-batches read.",
    "rows_written": "Rows that micro-batches wrote.",
    "rows_quarantined": "Rows that micro-batches quarantined.",
    "duplicates": "Rows that micro-batches left out as duplicates.",
    "files": "Landing files that micro-batches read.",
}
LAST = {
    "seconds": "Seconds of the last run.",
    "backlog_seconds": "Age of what waited upstream when the last run began.",
    "backlog_files": "Files that waited upstream when the last run began.",
    "backlog_bytes": "Bytes that waited upstream when the last run began.",
}


class NoPrometheus(RuntimeError):
    """The library that writes the format is not installed."""

    def __init__(self) -> None:
        """Say how to install it."""
        super().__init__(
            "metrics need prometheus_client, which is not installed. Nothing was read or written: "
            "pip install 'medallion-assets[prometheus]', and ask again."
        )


def metrics(lake: Path) -> str:
    """Return a lake's metrics by table: runs, failures, rows, files, the last run's time, length and backlog.

    Counters cover what the event log still keeps; one that shrinks with it is a restart to Prometheus.

    Raises:
        NoPrometheus: ``prometheus_client`` is not installed.
    """
    try:
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    except ImportError as error:
        raise NoPrometheus from error
    registry, path = CollectorRegistry(), events.events_of(lake)
    counts = ", ".join(f"sum({name}) AS {name}" for name in SUMS)
    turn = 'row_number() OVER (PARTITION BY "table" ORDER BY at DESC) AS turn'
    batches = log.rows(path, f'SELECT "table", {counts} FROM t WHERE {BATCH} GROUP BY "table"')
    ended = log.rows(path, f'SELECT "table", at, event, {", ".join(LAST)}, {turn} FROM t WHERE NOT {BATCH}')
    runs = Counter(row["table"] for row in ended)
    failed = Counter(row["table"] for row in ended if row["event"] == events.FAILURE)
    last = [row for row in ended if row["turn"] == 1]
    counters = {name: (words, {row["table"]: row[name] for row in batches}) for name, words in SUMS.items()}
    counters["runs"] = "Refreshes, loads and operations.", dict(runs)
    counters["failures"] = "Those that failed.", {table: failed[table] for table in runs}
    gauges = {f"last_{n}": (words, {row["table"]: row[n] for row in last}) for n, words in LAST.items()}
    when = {row["table"]: row["at"].timestamp() for row in last}
    gauges["last_run_timestamp_seconds"] = "When the last one ended.", when

    class Collector:
        def collect(self) -> Iterator[Any]:
            for family, named in ((CounterMetricFamily, counters), (GaugeMetricFamily, gauges)):
                for name, (words, values) in named.items():
                    made = family(f"medallion_{name}", words, labels=["table"])
                    for table, value in sorted(values.items()):
                        if value is not None:
                            made.add_metric([table], value)
                    yield made

    registry.register(Collector())
    return str(generate_latest(registry).decode())
