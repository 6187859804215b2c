"""The school chain kept up while a file lands every five seconds: what it lost, how late, how much memory.

    python -m benchmarks.streaming [MINUTES] [PICTURE.svg]

Prints a line a minute; at the end compares gold with sums made by Python alone from the landed files, and
draws the latency from landing to gold and the memory of the process with its JVM. Exits 1 where sums differ.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from medallion_assets.delta import log

MEDALLION = str(Path(sys.executable).with_name("medallion"))
GOLD = "school/gold/daily_student_courses"
WIDTH, HEIGHT = 900, 260


def memory_mb(root):
    """Memory of a process and its children that is really in use, as Linux tells it."""
    pids, total = [root], 0.0
    for pid in pids:
        try:
            pids += [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
            found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
            total += int(found[1]) / 1024 if found else 0
        except OSError:
            continue
    return total


def followed(stream, latencies, started):
    table = ""
    for line in stream.stdout:
        name = re.search(r"(?:done|failed)\s+(\S+):", line)
        table = name[1] if name else table
        late = re.search(r"([\d.]+) s after its oldest file landed", line)
        if late and table == GOLD:
            latencies.append((time.monotonic() - started, float(late[1])))
        if "failed" in line:
            print(line.rstrip(), flush=True)


def expected(landing):
    """Quantities of gold, by Python alone: each good enrollment once."""
    seen, total = set(), 0
    for file in sorted((landing / "school/enrollments").glob("*.json")):
        for line in file.read_text().splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            known = isinstance(row, dict) and str(row.get("student_id", "")).startswith("S0")
            good = known and isinstance(row.get("quantity"), int) and row["quantity"] > 0
            if good and row["enroll_id"] not in seen:
                seen.add(row["enroll_id"])
                total += row["quantity"]
    return total


def picture(latencies, memory, minutes):
    def line(points, top, colour):
        scaled = " ".join(f"{WIDTH * t / (minutes * 60):.1f},{HEIGHT - 20 - (HEIGHT - 40) * v / top:.1f}"
                          for t, v in points)  # fmt: skip
        return f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{scaled}"/>'

    slow, big = max(v for _, v in latencies), max(v for _, v in memory)
    words = f"latency, landing to gold (green, at most {slow:.0f} s); memory (grey, at most {big:.0f} MB)"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/><text x="8" y="14" font-size="13">{words}, '
        f"over {minutes:g} minutes</text>{line(memory, big, '#999999')}"
        f"{line(latencies, slow, '#4f8a5b')}</svg>\n"
    )


def main(minutes, drawing):
    folder = Path(tempfile.mkdtemp(prefix="streaming-"))
    env = os.environ | {"MEDALLION_LAKE": str(folder / "lake"), "MEDALLION_LANDING": str(folder / "landing")}
    land = [MEDALLION, "land", "school", "--continuous", "--every", "5", "--faults"]
    lander = subprocess.Popen(land, env=env, stdout=subprocess.DEVNULL)
    stream = subprocess.Popen([MEDALLION, "stream", "school", "--every", "5s"], env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
    started, latencies, memory = time.monotonic(), [], []
    threading.Thread(target=followed, args=(stream, latencies, started), daemon=True).start()
    while time.monotonic() - started < minutes * 60:
        time.sleep(10)
        memory.append((time.monotonic() - started, memory_mb(stream.pid)))
        if len(memory) % 6 == 0:
            print(f"{memory[-1][0]:4.0f} s: {memory[-1][1]:.0f} MB, latency {latencies[-1:]}", flush=True)
    lander.terminate()
    lander.wait()
    stream.send_signal(signal.SIGTERM)
    stopped = time.monotonic()
    stream.wait(timeout=120)
    print(f"stopped {time.monotonic() - stopped:.1f} s after SIGTERM, exit {stream.returncode}")
    last = subprocess.run([MEDALLION, "run", "school"], env=env, capture_output=True, text=True, check=False)
    print(last.stdout.splitlines()[-1])
    found = log.rows(folder / "lake" / GOLD, "SELECT CAST(sum(quantity) AS BIGINT) AS n FROM t")[0]["n"]
    wanted = expected(folder / "landing")
    files = len(list((folder / "landing/school/enrollments").glob("*.json")))
    half = len(memory) // 2
    early, late = (max(m for _, m in part) for part in (memory[half // 2 : half], memory[half:]))
    middle = sorted(v for _, v in latencies)[len(latencies) // 2]
    longest = max(v for _, v in latencies)
    print(f"{files} files; gold holds {found}, Python counts {wanted}")
    print(f"latency: median {middle:.1f} s, at most {longest:.1f} s")
    print(f"memory: {early:.0f} MB at most in the first half, {late:.0f} MB in the second")
    if drawing:
        Path(drawing).write_text(picture(latencies, memory, minutes))
    return found != wanted or last.returncode != 0


if __name__ == "__main__":
    sys.exit(main(float([*sys.argv, "15"][1]), sys.argv[2] if len(sys.argv) > 2 else ""))
