"""The whole matrix in one list, and one trial of it in whatever process."""

import time
from functools import partial
from pathlib import Path

import pytest

from medallion_assets.session import start_session
from medallion_assets.settings import Settings
from medallion_assets_tests.faults import (
    corpora,
    crashes,
    damaged_tables,
    disclosure,
    disks,
    histories,
    landing,
    names,
    orchestrated,
    processes,
    readers,
    records,
    runs,
    storage,
    upstream,
)
from medallion_assets_tests.faults.trial import CASES, ReplayPlan

ROOMS = (corpora, crashes, damaged_tables, disclosure, disks, histories, landing, names, orchestrated,
         processes, readers, records, runs, storage, upstream)  # fmt: skip


def tried(number, folder):
    """Run a trial by its place in the matrix; gives that, what was seen, if it held, and its seconds."""
    case, began = in_order()[number], time.monotonic()
    spark = partial(start_session, Settings().resolved(), stays=True)
    try:
        seen, held = case.run(ReplayPlan(Path(folder), spark)), True
    except pytest.skip.Exception as why:
        seen, held = f"skipped: {why}", True
    except Exception as error:
        seen, held = f"{type(error).__name__}: {str(error)[:300]}", False
    return number, seen, held, time.monotonic() - began


def in_order():
    """Return the matrix, row by row."""
    return sorted(CASES, key=lambda case: (case.row[0], int(case.row.partition(",")[0][1:])))
