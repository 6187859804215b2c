"""A session of its own process: its Python is this environment's, and it greets nobody."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
from pyspark.sql import functions as F
from medallion_assets.session import start_session
from medallion_assets.session.frames import frame_of
from medallion_assets.settings import Settings

rows = frame_of(start_session(Settings().resolved()), [(1, "a"), (2, None)], "id INT, name STRING")
assert [tuple(row) for row in rows.collect()] == [(1, "a"), (2, None)]
where = F.udf(lambda _: sys.executable)
print("ran in", {row[0] for row in rows.select(where("id")).collect()})
"""


@pytest.mark.spark
def test_a_python_function_in_a_query_runs_in_this_environment_whatever_the_path_has(lake, tmp_path):
    other = tmp_path / "bin/python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 'this is another Python' >&2; exit 1\n")
    other.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    env |= {"PATH": f"{other.parent}{os.pathsep}{env['PATH']}", "MEDALLION_LAKE": str(lake.root)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=False
    )
    assert f"ran in {{{sys.executable!r}}}" in done.stdout, done.stderr[-2000:]
    # The one line is Java's, of a module that Spark's launcher asks for.
    assert [line for line in done.stderr.splitlines() if "incubator modules" not in line] == []
