"""Landed text files parsed once, outside Spark, into Parquet files that Spark reads in their place.

A file is read in blocks of whole lines, whatever its size. Rows that fit go to one kind of Parquet file,
typed; rows with rescued data and records that are no rows go to another, with their text, reason and place.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from medallion_assets.sources.counting import BROKEN, CUT_LAYOUTS, cut_records, plain_pieces
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats.messages import MESSAGES, message_blocks
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.opening import ENDINGS, record_encoding, wrapping
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import BYTES, POSITION, CutRecord

ROW_GROUP = 32 << 20
"""Bytes of landed text in a row group, which is the least that Spark reads by itself."""

LEFT = "_check_rescued"
JUDGED = pa.schema([(name, pa.string()) for name in (LEFT, "_raw", "_reason", POSITION, BYTES)])
"""Columns beside the schema's: rescued data, and of a record that is no row what ``quarantine`` keeps."""

FROM = pa.schema([("_source_file", pa.string()), ("_source_modified_at", pa.timestamp("us", "UTC"))])


class ParquetPart:
    """A Parquet file that is there once a row came, each row with the file it came from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.waiting: list[pa.Table] = []
        self.bytes = 0
        self.writer: pq.ParquetWriter | None = None

    def close(self) -> list[str]:
        """Write what is left; return the file, where a row came."""
        self._write()
        if not self.writer:
            return []
        self.writer.close()
        return [str(self.path)]

    def add(self, rows: pa.Table, origins: Sequence[Entry], size: int) -> None:
        """Add rows of a file, or of several in their order; they were so many bytes of text."""
        if not len(rows):
            return
        counts = [len(rows)] if len(origins) == 1 else [file.records for file in origins]
        at = pa.array(np.repeat(np.arange(len(origins)), counts))
        # Spark gives a file's time in whole milliseconds.
        times = [f.modified_at - timedelta(microseconds=f.modified_at.microsecond % 1000) for f in origins]
        for name, values in zip(FROM.names, ([file.path for file in origins], times), strict=True):
            column = pa.array(values, FROM.field(name).type).take(at)
            rows = rows.append_column(FROM.field(name), column)
        self.waiting.append(rows)
        self.bytes += size
        if self.bytes >= ROW_GROUP:
            self._write()

    def _write(self) -> None:
        if self.waiting:
            rows = pa.concat_tables(self.waiting)
            self.writer = self.writer or self._opened(rows.schema)
            self.writer.write_table(rows)
        self.waiting, self.bytes = [], 0

    def _opened(self, schema: pa.Schema) -> pq.ParquetWriter:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Read once and thrown away: what a dictionary or statistics save later does not pay for them.
        return pq.ParquetWriter(
            self.path, schema, compression="snappy", use_dictionary=FROM.names, write_statistics=False
        )


T = TypeVar("T")
NO_LINE = "?"
"""In the place of a record that is none; a blank line would be no record."""

BLOCK = 16 << 20
"""Bytes of whole lines that are parsed at once."""

AHEAD = 2
"""Blocks that are parsed while another is written: each is in memory."""

SMALL = 1 << 20
"""Bytes of a file that is parsed as one task with others."""


@dataclass
class Parsed:
    """Rows of a block of lines.

    Attributes:
        origins: The file; of several each has ``records`` of the rows.
        rows: The schema's columns.
        judged: The schema's columns and ``JUDGED``.
        size: Bytes parsed.
    """

    origins: Sequence[Entry]
    rows: list[pa.Table] = field(default_factory=list)
    judged: list[pa.Table] = field(default_factory=list)
    size: int = 0


@dataclass
class ParsedFiles:
    """Parquet files of a batch: ``rows`` and ``judged`` as in ``Parsed``, both with ``FROM``."""

    rows: list[str] = field(default_factory=list)
    judged: list[str] = field(default_factory=list)


Task = Callable[[], list[Parsed]]
Parse = Callable[[Entry, bytes, int, Sequence[CutRecord]], Parsed]
"""Parses a block of a file's lines, the first of which has that number, and is cut from these records."""


def parse_files(tasks: Iterable[Task], folder: Path) -> ParsedFiles:
    """Write what tasks parse, in their order, to Parquet files in a folder."""
    rows, judged = ParquetPart(folder / "rows.parquet"), ParquetPart(folder / "judged.parquet")
    try:
        for parsed in _parsed_ahead(tasks):
            for part, tables in ((rows, parsed.rows), (judged, parsed.judged)):
                for table in tables:
                    part.add(table, parsed.origins, parsed.size)
    finally:
        written = ParsedFiles(rows.close(), judged.close())
    return written


def file_groups(files: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Return small files several together, about ``BLOCK`` bytes, and each larger one by itself."""
    small: list[Entry] = []
    size = 0
    for file in files:
        packed = not ENDINGS.keys().isdisjoint(Path(file.path).suffixes)
        if file.size > SMALL or file.layout in CUT_LAYOUTS or packed or file.refusal:
            yield [file]
            continue
        small.append(file)
        size += file.size
        if size > BLOCK:
            yield small
            small, size = [], 0
    if small:
        yield small


def line_tasks(files: Sequence[Entry], source: Source, parse: Parse, whole: bool = False) -> Iterator[Task]:
    """Return what is to be done to parse files of lines: of a large file each block of lines.

    Args:
        files: What to parse.
        source: How the files are written.
        parse: What parses a block.
        whole: A file is one block, and one record.

    Raises:
        UnreadableFile: A file is not what discovery found any more.
    """
    for group in [[file] for file in files] if whole else file_groups(files):
        (file, *others) = group
        if file.layout == MESSAGES:
            for messages in readable(message_blocks(file.location, file.path), file):
                yield partial(_block, parse, file, messages.block, 1, messages)
        elif file.layout in CUT_LAYOUTS:
            yield from _cut_tasks(file, source, parse)
        elif whole or others or file.size <= SMALL:
            yield _small_task(group, source, parse)
        else:
            yield from _block_tasks(file, source, parse)


def _small_task(files: list[Entry], source: Source, parse: Parse) -> Task:
    def task() -> list[Parsed]:
        blocks = [_whole(file, source) for file in files]
        if len(files) > 1 and not source.select:
            parsed = parse(files[0], b"".join(blocks), 1, [])
            if not parsed.judged and sum(map(len, parsed.rows)) == sum(file.records for file in files):
                return [replace(parsed, rows=[pa.concat_tables(parsed.rows)], origins=files)]
        return [parse(file, block, 1, []) for file, block in zip(files, blocks, strict=True)]

    return task


def _whole(file: Entry, source: Source) -> bytes:
    """Return a small file, with a line end behind its last line where another file's lines may follow."""
    data = b"".join(pieces_of(file, source))
    wholly = source.option("wholetext", default="false") == "true"
    return data if wholly or data.endswith(b"\n") else data + b"\n"


def _block_tasks(file: Entry, source: Source, parse: Parse) -> Iterator[Task]:
    number = 1
    for block in whole_lines(pieces_of(file, source)):
        yield partial(_block, parse, file, block, number, [])
        number += lines_of(block)


def _block(parse: Parse, file: Entry, *block: Any) -> list[Parsed]:
    return [parse(file, *block)]


def _cut_tasks(file: Entry, source: Source, parse: Parse) -> Iterator[Task]:
    errors, number = written_as(file, source)[1], 1
    records: list[CutRecord] = []
    size = 0
    for record in readable(cut_records(file, source), file):
        records.append(record)
        size += len(record.line) + len(record.text)
        if size > BLOCK:
            yield _cut_task(file, records, number, parse, errors)
            number, records, size = number + len(records), [], 0
    yield _cut_task(file, records, number, parse, errors)


def _cut_task(file: Entry, records: list[CutRecord], number: int, parse: Parse, errors: str) -> Task:
    def task() -> list[Parsed]:
        lines = "\n".join(record.line or NO_LINE for record in records)
        return [parse(file, lines.encode("utf-8", errors), number, records)]

    return task


def written_as(file: Entry, source: Source) -> tuple[str, str]:
    """Return the encoding of a file's records, and how bytes that are no text in it are kept."""
    if file.layout in ("lines", "elements", MESSAGES):
        return "utf-8", "surrogateescape"
    wrapped = wrapping(file.location, source)
    return record_encoding(file.location, wrapped), wrapped.errors


def pieces_of(file: Entry, source: Source) -> Iterator[bytes]:
    """Return ``plain_pieces`` of a file.

    Raises:
        UnreadableFile: It is gone, cut off or no text in its encoding.
    """
    return readable(plain_pieces(file, source), file)


def readable(pieces: Iterator[T], file: Entry) -> Iterator[T]:
    """Return the pieces of a file; what is wrong with its bytes becomes ``UnreadableFile``, with its name."""
    try:
        yield from pieces
    except (*BROKEN, UnreadableFile) as broken:
        raise UnreadableFile(f"{file.location} cannot be read: {broken or type(broken).__name__}") from broken


def _parsed_ahead(tasks: Iterable[Task]) -> Iterator[Parsed]:
    with ThreadPoolExecutor(AHEAD) as threads:
        ahead: deque[Future[list[Parsed]]] = deque()
        for task in tasks:
            ahead.append(threads.submit(task))
            if len(ahead) > AHEAD:
                yield from ahead.popleft().result()
        for future in ahead:
            yield from future.result()


def whole_lines(pieces: Iterable[bytes], size: int = BLOCK) -> Iterator[bytes]:
    """Return pieces of a text as blocks of whole lines; a longer line is a block of its own."""
    waiting: list[bytes] = []
    length = 0
    for piece in pieces:
        waiting.append(piece)
        length += len(piece)
        if length < size or b"\n" not in piece:
            continue
        block = b"".join(waiting)
        end = block.rindex(b"\n") + 1
        yield block[:end]
        waiting, length = [block[end:]], len(block) - end
    if length:
        yield b"".join(waiting)


def lines_of(block: bytes) -> int:
    """Return how many lines a block of whole lines has; a carriage return alone ends one too."""
    if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
        return len(block.splitlines())
    return block.count(b"\n") + (not block.endswith(b"\n"))


def with_positions(rows: pa.Table, unit: str, first: int, numbers: Sequence[int]) -> pa.Table:
    """Return rows with where each is in its file; ``numbers`` are those of their lines after the first."""
    places = pa.array([f"{unit} {first + number}" for number in numbers], pa.string())
    return rows.append_column(POSITION, places)
