"""What waits upstream for a table to take it: since when, how many files, how many bytes."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.events import Backlog
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import position
from medallion_assets.sources.ledger import admitted_between


def backlog(table: Table, lake: Lake) -> Backlog | None:
    """Return a table's backlog upstream, read from logs; None where the logs cannot be read."""
    try:
        return _backlog(table, lake)
    except Exception as problem:
        logging.getLogger(__name__).warning("the backlog is not known: %s", type(problem).__name__)
        return None


def _backlog(table: Table, lake: Lake) -> Backlog:
    upstream, after = lake.upstream_log(table), position(table, lake)
    newest = log.version(upstream)
    if newest is None or newest <= after:
        return Backlog()
    if table.source:
        found = admitted_between(upstream, load_target_of(table, lake).root, after, newest)
        parts = [(file.modified_at.timestamp(), file.size) for file in found]
    else:
        parts = list(_added(upstream, after, newest))
    oldest = min((at for at, _ in parts), default=time.time())
    return Backlog(max(0.0, time.time() - oldest), len(parts), sum(size for _, size in parts))


def _added(upstream: Path, after: int, newest: int) -> Iterator[tuple[float, int]]:
    """Return when each data file of these commits was written, and its bytes."""
    for version in range(after + 1, newest + 1):
        for action in log.actions(upstream, version) or ():
            if added := action.get("add"):
                yield int(added["modificationTime"]) / 1000, int(added["size"])
