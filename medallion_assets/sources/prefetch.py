"""The next micro-batch's text files, parsed while the JVM gets its stream ready.

What is looked at early is used only where the micro-batch turns out to ask for just that.
"""

import shutil
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from pyspark.sql.types import StructType

from medallion_assets.sources.formats.parsed_files import ParsedFiles
from medallion_assets.sources.formats.text_files import parse_text_files
from medallion_assets.sources.ledger import Entry, admitted_between
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.reading import PARSED, partition_keys
from medallion_assets.sources.schemas import schema_beforehand

VerbRequest = tuple[str, tuple[Entry, ...]]
"""A schema as JSON, and the files."""

_BEGUN: dict[Path, tuple[VerbRequest, "Future[ParsedFiles]"]] = {}
"""By the folder they go to; a table has one writer at a time."""


def look_ahead(place: LoadTarget, position: int) -> None:
    """Read the files of the micro-batch after a position, where the schema for them is known."""
    drop_ahead(place.state)
    if place.source.format not in PARSED:
        return
    files = admitted_between(place.ledger, place.root, position, position + 1)
    schema = schema_beforehand(place.source, files, place.state / "schemas") if files else None
    full = [file for file in files if file.records]
    if schema is None or not full:
        return
    keys = partition_keys(files, place.source)
    own = StructType([field for field in schema.fields if field.name not in keys])
    thread = ThreadPoolExecutor(1)
    future = thread.submit(parse_text_files, full, own, place.source, _folder(place.state))
    thread.shutdown(wait=False)
    _BEGUN[place.state] = (_asked(full, own), future)


def looked_ahead(state: Path, files: Sequence[Entry], schema: StructType) -> ParsedFiles | None:
    """Return what was made of just these files with this schema, None where there is none; waits for it."""
    asked, future = _BEGUN.get(state, (None, None))
    return future.result() if future and asked == _asked(files, schema) else None


def drop_ahead(state: Path) -> None:
    """Remove what was made, once nobody reads it any more."""
    _, future = _BEGUN.pop(state, (None, None))
    if future:
        future.exception()
    shutil.rmtree(_folder(state), ignore_errors=True)


def _folder(state: Path) -> Path:
    return state / "ahead"


def _asked(files: Sequence[Entry], schema: StructType) -> VerbRequest:
    return schema.json(), tuple(files)
