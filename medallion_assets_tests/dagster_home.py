"""Dagster as ``make ui`` starts it, for tests that look at what it does by itself."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]


@contextmanager
def daemon_up(home, lake, landing, how_it_ends=signal.SIGTERM):
    """Run web server and daemon on a home of their own; gives the file of what they say."""
    home.mkdir(parents=True, exist_ok=True)
    shutil.copy(PROJECT / "medallion_assets" / "templates" / "dagster.yaml", home)
    said = home / "said.log"
    own = {"DAGSTER_HOME": home, "MEDALLION_LAKE": lake, "MEDALLION_LANDING": landing}
    command = [sys.executable, "-m", "dagster", "dev", "-w", "workspace.yaml", "-h", "127.0.0.1", "-p", "0"]
    with said.open("a") as file:
        process = subprocess.Popen(
            command,
            cwd=PROJECT,
            env=os.environ | {name: str(value) for name, value in own.items()},
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            yield said
        finally:
            os.killpg(process.pid, how_it_ends)
            process.wait(60)


def until(is_so, seconds):
    """Waits until something is so; gives whether it came to be in that time."""
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(1)
    return is_so()
