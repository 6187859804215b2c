"""Files of JSON lines in two parts, as Parquet: the lines that fit the schema, typed, and the others.

Small files share a stand-in, so that Spark opens a few files where thousands landed.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import StructType

from medallion_assets.sources.counting import BROKEN
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats.part_file import Part
from medallion_assets.sources.formats.typed_lines import Fitting, Lines
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.opening import ENDINGS
from medallion_assets.sources.options import Source
from medallion_assets.sources.plain_pieces import plain_pieces

LARGEST = 1 << 30
"""A file is looked at in memory."""

AHEAD, AHEAD_BYTES = 3, 256 << 20
"""Files that are looked at while another is written: each is in memory, and a large one alone."""

PACKED = 8
"""Bytes of JSON in one of a compressed file; 5 to 10 are usual."""

CORES = os.cpu_count() or 1
SHARE = 500
"""Lines worth a core of their own: parsed one by one they take Spark 80 microseconds each."""

VALUE = pa.schema([("value", pa.binary()), ("texts", pa.string())])


@dataclass
class LineParts:
    """What a batch's files of lines are in.

    Attributes:
        fitting: Parquet files of the schema's columns and ``FROM``.
        others: Parquet files of ``value`` BINARY, a line, ``texts`` STRING (``exact_texts``), and ``FROM``.
        whole: Files that could not be parted; they are to be read as they lie.
    """

    fitting: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    whole: list[Entry] = field(default_factory=list)


def line_parts(files: Sequence[Entry], schema: StructType, source: Source, folder: Path) -> LineParts:
    """Return the files' lines in two parts, written to the folder."""
    fitting, parts = Fitting(schema), LineParts()
    if not fitting.able:
        return LineParts(whole=list(files))
    with ExitStack() as open_files:
        typed = open_files.enter_context(Part(folder / "fitting"))
        untyped = [open_files.enter_context(Part(folder / f"others-{n}")) for n in range(CORES)]
        for file, lines in _looked_at(files, fitting, source):
            if lines is None:
                parts.whole.append(file)
                continue
            typed.add(lines.fitting, file)
            _spread(_untyped(lines), untyped, file)
    parts.fitting, parts.others = typed.written, [path for part in untyped for path in part.written]
    return parts


def _untyped(lines: Lines) -> pa.Table:
    texts = pa.array(lines.texts, pa.binary()).cast(pa.string())
    return pa.table([pa.array(lines.others, pa.binary()), texts], VALUE)


def _spread(rows: pa.Table, parts: "list[Part]", file: Entry) -> None:
    size = max(-(-len(rows) // len(parts)), SHARE)
    for number, part in enumerate(parts):
        part.add(rows.slice(number * size, size), file)


def _looked_at(
    files: Sequence[Entry], fitting: Fitting, source: Source
) -> Iterator[tuple[Entry, Lines | None]]:
    """Return each file with its lines, in order; one is looked at while the one before it is written."""
    with ThreadPoolExecutor(AHEAD) as threads:
        ahead: deque[tuple[Entry, Future[Lines | None]]] = deque()
        for file in files:
            while ahead and (
                len(ahead) >= AHEAD or sum(_weight(f) for f, _ in ahead) + _weight(file) > AHEAD_BYTES
            ):
                first, lines = ahead.popleft()
                yield first, lines.result()
            ahead.append((file, threads.submit(_lines, file, fitting, source)))
        for first, lines in ahead:
            yield first, lines.result()


def _weight(file: Entry) -> int:
    return file.size * (PACKED if Path(file.path).suffix.lower() in ENDINGS else 1)


def _lines(file: Entry, fitting: Fitting, source: Source) -> Lines | None:
    data = bytearray()
    try:
        for piece in plain_pieces(file, source):
            if len(data) + len(piece) > LARGEST:
                return None
            data += piece
    except (*BROKEN, UnreadableFile):
        # Gone or cut off since it was looked at: whoever reads it says so.
        return None
    return fitting.lines(bytes(data), file.records)
