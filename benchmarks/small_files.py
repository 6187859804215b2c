"""How many small files a second go through bronze, in one session that stays.

    python -m benchmarks.small_files [FILES]

FILES (3,000) files of ten JSON records are landed three times, after a thousand to warm the session up, and
each time loaded by ``autoload_to_table``: ledger, counts, values, quarantine and status table with them.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from medallion_assets import autoload_to_table
from medallion_assets.session import start_session
from medallion_assets.settings import current_settings

RECORD = '{"id": %d, "total": 5, "at": "2026-01-01T00:00:00Z"}\n'
IN_A_FILE = 10


def main(files: int = 3000) -> None:
    """Print the files a second of each load."""
    with tempfile.TemporaryDirectory(prefix="small-files-") as place:
        os.environ["MEDALLION_LAKE"] = f"{place}/lake"
        spark, zone, landed = start_session(current_settings(), stays=True), Path(place) / "landing", 0
        zone.mkdir()
        for count in (1000, files, files, files):
            for number in range(landed, landed + count):
                (zone / f"{number:08d}.json").write_text(RECORD % number * IN_A_FILE)
            landed += count
            began, schema = time.monotonic(), "id BIGINT, total INT, at TIMESTAMP"
            done = autoload_to_table(
                str(zone), "json", "t", Path(place) / "checkpoint", spark=spark, schema=schema
            )
            took = time.monotonic() - began
            assert done.rows_loaded == count * IN_A_FILE
            print(f"{count} files: {took:.1f} s, {count / took:.0f} files a second", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
