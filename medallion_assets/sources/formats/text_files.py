"""Landed files of text formats parsed as Parquet files: in this process, or on executors where they are many.

Both run ``parse_text_files``, which depends on nothing but its arguments. Executors must see the landing zone
and the lake under the same paths as this process.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from medallion_assets.session.cluster import on_executors, unseen
from medallion_assets.settings import current_settings
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats.csv_rows import parse_csv_files
from medallion_assets.sources.formats.json_rows import (
    NOT_UTF8,
    CarefulReader,
    Judged,
    parse_json_files,
    refused_bytes,
)
from medallion_assets.sources.formats.messages import Messages
from medallion_assets.sources.formats.parsed_files import (
    Parsed,
    ParsedFiles,
    file_groups,
    line_tasks,
    parse_files,
    with_positions,
    written_as,
)
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import CutRecord
from medallion_assets.storage import ObjectPath, is_still

TEXT = StructType([StructField("value", StringType())])
"""Spark's own column for text; it never changes."""

BINARY = StructType([StructField("value", BinaryType())])
"""The column of a message's bytes."""


def parse_text_files(files: Sequence[Entry], schema: StructType, source: Source, folder: Path) -> ParsedFiles:
    """Write the records of CSV, JSON, XML or text files to Parquet files in a folder, typed by the schema."""
    if source.format == "csv":
        return parse_csv_files(files, schema, source, folder)
    if source.kafka and source.format != "json":
        return parse_files(line_tasks(files, source, partial(_values, source)), folder)
    if source.format != "text":
        return parse_json_files(files, schema, source, folder)
    whole = source.option("wholetext", default="false") == "true"

    def parse(file: Entry, block: bytes, first: int, _: Sequence[CutRecord]) -> Parsed:
        lines = [block] if whole else block.splitlines()
        good, numbers, places, refused = [], [], [], []
        for number, line in enumerate(lines, first):
            if (text := _text_of(line)) is not None:
                good.append(text)
                numbers.append(number - first)
            else:
                places.append("whole file" if whole else f"line {number}")
                refused.append(refused_bytes(line, NOT_UTF8, *written_as(file, source)))
        rows = [pa.table({"value": pa.array(good, pa.string())})] if good else []
        if file.refusal:
            # A line that is text refuses nothing of itself.
            unit = "whole file" if whole else "line {}"
            places += [unit.format(first + number) for number in numbers]
            refused += [Judged(raw=text, reason=file.refusal) for text in good]
            rows = []
        if source.select:
            rows = [with_positions(table, "line", first, numbers) for table in rows]
        judged = [CarefulReader(TEXT, False, False).table(refused, places)] if refused else []
        return Parsed([file], rows, judged, len(block))

    return parse_files(line_tasks(files, source, parse, whole), folder)


def _values(source: Source, file: Entry, block: bytes, _: int, messages: Sequence[CutRecord]) -> Parsed:
    """Return messages with their value as it is; as text, those that are UTF-8."""
    assert isinstance(messages, Messages)
    is_text, values = source.format == "text", messages.values
    schema = TEXT if is_text else BINARY
    texts = [value if value is None or not is_text else _text_of(value) for value in values]
    refused = dict(messages.refused)
    refused |= {n: NOT_UTF8 for n, value in enumerate(values) if value is not None and texts[n] is None}
    good = [n for n in range(len(messages)) if n not in refused]
    table = pa.table({"value": pa.array([texts[n] for n in good], pa.string() if is_text else pa.binary())})
    parsed = Parsed([file], [messages.beside(table, good)] if good else [], size=len(block))
    if bad := sorted(refused):
        judged = [refused_bytes(values[n] or b"", refused[n], "utf-8", "surrogateescape") for n in bad]
        rows = CarefulReader(schema, False, False).table(judged, messages.places(bad))
        parsed.judged.append(messages.beside(rows, bad))
    return parsed


def _text_of(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


MANY_BYTES = 256 << 20
"""Landed bytes that take this process some seconds; a Spark job over Python workers takes about one."""


def are_for_executors(files: Sequence[Entry]) -> bool:
    """Return true where executors parse the files: by their size, and by default on a cluster only.

    Executors of a local master have no more cores than this process. Beside a lake in an object store they
    see no folder of this machine, where landed objects are downloaded.
    """
    settings = current_settings()
    least = settings.parse_on_executors_bytes
    if (least is None and settings.is_one_machine) or isinstance(settings.lake, ObjectPath):
        return False
    return sum(file.size for file in files) >= (MANY_BYTES if least is None else least)


def parse_batch(
    spark: SparkSession, files: Sequence[Entry], schema: StructType, source: Source, folder: Path
) -> ParsedFiles:
    """Write the files' records to Parquet files in a folder, where the batch's size says.

    Raises:
        UnreadableFile: A file is not what discovery found any more.
        ExecutorsUnfit: Executors do not see the landing zone.
    """
    if not are_for_executors(files):
        return parse_text_files(files, schema, source, folder)

    def parse(numbered: tuple[int, list[Entry]]) -> tuple[ParsedFiles, str, list[Entry]]:
        number, group = numbered
        missing = [file for file in group if not _is_there(file)]
        try:
            # Spark may run a task twice: each attempt has a folder of its own.
            target = folder / f"{number}-{uuid4().hex}"
            return parse_text_files(group, schema, source, target), "", missing
        except UnreadableFile as broken:
            return ParsedFiles(), str(broken), missing

    whole = ParsedFiles()
    for part, broken, missing in on_executors(spark, list(enumerate(file_groups(files))), parse):
        refuse_unseen(missing)
        if broken:
            raise UnreadableFile(broken)
        whole.rows += part.rows
        whole.judged += part.judged
    return whole


def refuse_unseen(files: Sequence[Entry]) -> None:
    """Raise where executors did not find files that this process sees.

    Raises:
        ExecutorsUnfit: The landing zone is not shared; its files are not to be taken for removed ones.
    """
    for file in files:
        if _is_there(file):
            raise unseen(str(file.location.parent))


def _is_there(file: Entry) -> bool:
    return is_still(str(file.location), file.size, file.modified_at)
