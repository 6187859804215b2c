"""Trial reads: a process apart reads Parquet and ORC files first, since damaged ones can end their reader.

Their readers are native code. Of files with some bits changed, one in 500 aborted Arrow 26 at a column
chunk's statistics, and one in 40 made the ORC library read outside of its memory: the whole run would end
without a word, and so would each run after it.
"""

import atexit
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Literal

from medallion_assets.sources.errors import UnreadableFile

Part = Literal["footer", "rows"]

PROGRAM = '''
import itertools, json, sys
import pyarrow as pa, pyarrow.orc, pyarrow.parquet, pyorc

class Plain(pyorc.converters.ORCConverter):
    """Takes what Python's own dates and times cannot hold."""
    from_orc = staticmethod(lambda *parts: parts)

KINDS = pyorc.TypeKind.DATE, pyorc.TypeKind.TIMESTAMP, pyorc.TypeKind.TIMESTAMP_INSTANT
CONVERTERS = dict.fromkeys(KINDS, Plain)

def parquet(path, part):
    file = pa.parquet.ParquetFile(path, coerce_int96_timestamp_unit="us")
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    for group in groups:
        for number in range(group.num_columns):
            group.column(number).statistics
    for batch in file.iter_batches() if part == "rows" else ():
        pass

def orc(path, part):
    with open(path, "rb") as opened:
        reader = pyorc.Reader(opened, converters=CONVERTERS)
        for number in itertools.count():
            try:
                reader[number].statistics
            except IndexError:
                break
            except Exception:
                continue
    file = pa.orc.ORCFile(path)
    timed = [place for place, field in enumerate(file.schema) if "timestamp" in str(field.type)]
    for stripe in range(file.nstripes):
        if part == "rows" and is_read(lambda: file.read_stripe(stripe)):
            continue
        for place in range(len(file.schema)) if part == "rows" else timed:
            if not is_read(lambda: file.read_stripe(stripe, columns=[place])):
                with open(path, "rb") as opened:
                    chosen = pyorc.Reader(opened, column_indices=[place], converters=CONVERTERS)
                    is_read(lambda: list(chosen.read_stripe(stripe)))

def is_read(read):
    try:
        read()
    except Exception:
        return False
    return True

for line in sys.stdin:
    path, kind, part = json.loads(line)
    try:
        {"parquet": parquet, "orc": orc}[kind](path, part)
    except Exception:
        pass  # The process that asked meets the same, and knows what to say of it.
    print("read", flush=True)
'''
"""By itself: this package's own modules take seconds to import, these 0.1 s."""

CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL")

_LOCK = threading.Lock()
_RUNNING: list["subprocess.Popen[str]"] = []


def try_reading(path: Path, source_format: str, part: Part) -> None:
    """Read a file as the engine is about to, in another process; to be called before anything opens it.

    Args:
        path: The file.
        source_format: ``parquet`` or ``orc``; of others nothing is read.
        part: ``footer`` for all that discovery reads, times in ORC's columns too; ``rows`` for every value.

    Raises:
        UnreadableFile: The other process died of it.
    """
    if source_format not in ("parquet", "orc"):
        return
    asked = json.dumps([str(path.absolute()), source_format, part])
    with _LOCK:
        # An end that no bytes bring about, such as a kill for want of memory, is not the file's doing.
        died = _died_of(asked)
        if died and died not in CRASHES:
            died = _died_of(asked)
    if died:
        raise UnreadableFile(
            f"not a whole {source_format} file: its bytes end the process that reads them ({died})"
        )


def _died_of(asked: str) -> str:
    """Return how the process ended that was asked to read a file, empty where it goes on."""
    reader = _reader()
    assert reader.stdin
    assert reader.stdout
    try:
        reader.stdin.write(asked + "\n")
        reader.stdin.flush()
        answered = reader.stdout.readline()
    except BrokenPipeError:
        answered = ""
    return "" if answered else _ended()


def _reader() -> "subprocess.Popen[str]":
    if _RUNNING and _RUNNING[0].poll() is not None:
        # Ended from outside since the last file, which is not this one's doing.
        _ended()
    if not _RUNNING:
        command = [sys.executable, "-c", PROGRAM]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        # In a session of its own: a Ctrl-C in the terminal, which a stream outlives, is not for it.
        _RUNNING.append(subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True, cwd="/", start_new_session=True
        ))  # fmt: skip
        atexit.register(_ended)
    return _RUNNING[0]


def _ended() -> str:
    """Let the process end, and return how it did."""
    atexit.unregister(_ended)
    if not _RUNNING:
        return ""
    reader = _RUNNING.pop()
    reader.communicate()
    code = reader.returncode
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
