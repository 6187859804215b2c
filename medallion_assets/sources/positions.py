"""Where in its file a malformed record stands, told by a second look at that file alone, outside Spark."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.session.frames import frame_of
from medallion_assets.sources.formats.csv_contents import csv_rows
from medallion_assets.sources.formats.json_documents import as_documents
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.opening import Wrapping, wrapping
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import POSITION

MOST = 100_000
"""Records of a batch whose place is looked for: beyond it the file itself is what is wrong."""

LoadTarget = tuple[str, str, int, str]
"""File, hash of the record's text, which of its likes in the file it is, and where it stands."""


def with_positions(refused: DataFrame, files: Sequence[Entry], source: Source) -> DataFrame:
    """Add ``_check_position`` STRING: ``line 17``, or ``record 3`` where records are no lines; else NULL.

    Args:
        refused: ``_raw`` and ``_source_file`` STRING; read twice, so best cached.
        files: The batch's files.
        source: How they are read.
    """
    told = refused.select("_source_file", F.sha1("_raw")).where("_raw IS NOT NULL").distinct().limit(MOST)
    wanted: dict[str, set[str]] = {}
    for path, text in told.collect():
        wanted.setdefault(path, set()).add(text)
    found = [p for file in files if file.path in wanted for p in _found(file, source, wanted[file.path])]
    if not found:
        return refused.withColumn(POSITION, F.lit(None).cast("string"))
    columns = f"_source_file STRING, _hash STRING, _nth INT, {POSITION} STRING"
    places = frame_of(refused.sparkSession, found, columns)
    alike = Window.partitionBy("_source_file", "_hash").orderBy(F.lit(1))
    hashed = refused.withColumn("_hash", F.sha1("_raw")).withColumn("_nth", F.row_number().over(alike))
    keys = ["_source_file", "_hash", "_nth"]
    return hashed.join(F.broadcast(places), keys, "left").drop("_hash", "_nth")


def _found(file: Entry, source: Source, wanted: set[str]) -> Iterator[LoadTarget]:
    alike: Counter[str] = Counter()
    word = "line" if file.layout in ("lines", "recoded") else "record"
    for number, text in enumerate(_texts(file, source), 1):
        name = hashlib.sha1(text, usedforsecurity=False).hexdigest()
        if name in wanted:
            alike[name] += 1
            yield file.path, name, alike[name], f"{word} {number}"


def _texts(file: Entry, source: Source) -> Iterable[bytes]:
    """Return the file's records as text, in order; blank lines too where it is a file of lines."""
    path = file.location
    wrapped = wrapping(path, source)
    if file.layout == "cells":
        return (_bytes(row.text) for row in csv_rows(path, source, wrapped))
    if file.layout == "document":
        documents = as_documents(path, wrapped, source.option("multiLine", default="auto"))
        return map(_bytes, documents or ())
    return _lines(path, wrapped) if file.layout in ("lines", "recoded") else ()


def _lines(path: Path, wrapped: Wrapping) -> Iterator[bytes]:
    if wrapped.plain:
        with wrapped.opened(path) as lines:
            yield from (part for line in lines for part in line.splitlines())
        return
    with wrapped.text(path) as text:
        # Not splitlines: to a text that ends lines at characters no reader of ours does.
        yield from (_bytes(line.removesuffix("\n").removesuffix("\r")) for line in text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
