"""Copies of files that Spark cannot open or would read wrongly under their own name or format.

On a cluster with a lake in an object store they are uploaded beside the table's state, and so is every other
file of the batch: executors see neither this machine's disk nor the landing zone.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.delta.names import no_pattern
from medallion_assets.session.cluster import is_cluster
from medallion_assets.sources.counting import plain_pieces
from medallion_assets.sources.formats.exact_copy import copy_exactly
from medallion_assets.sources.formats.parsed_files import ParsedFiles
from medallion_assets.sources.formats.text_files import parse_batch
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.options import Source
from medallion_assets.storage import ObjectPath, remove_tree, scratch_of
from medallion_assets.storage.copies import upload

PLAIN_PATH = re.compile(r"[\w /.@=,~-]+", re.ASCII)
"""Paths that Hadoop does not take for a glob, a URI scheme or an escape."""

ENDINGS = {"rows": ".parquet"}
MOST = 1 << 20
"""Characters a path has at most."""


Ahead = Callable[[Sequence[Entry], StructType], ParsedFiles | None]


class Staging:
    """A folder of copies for one micro-batch; deleted once the batch is written."""

    def __init__(
        self, folder: Path, source: Source, ahead: Ahead | None = None, uploads: Path | None = None
    ) -> None:
        """Use a folder of this batch alone; delete the copies of an earlier attempt that crashed.

        Args:
            folder: The folder of the copies.
            source: The files' source.
            ahead: Returns files that were parsed already.
            uploads: The prefix in an object store where executors find the copies; None where Spark reads
                this machine's disk.
        """
        shutil.rmtree(folder, ignore_errors=True)
        self.folder, self.source, self.ahead, self.uploads = folder, source, ahead, uploads
        self.root = ""
        self.names: dict[str, str] = {}
        self.times: dict[str, int] = {}
        self.made: dict[str, str] = {}
        shown = str(uploads or folder)
        self.encoded = " " in shown or not PLAIN_PATH.fullmatch(shown)
        self.parts: dict[tuple[object, ...], ParsedFiles] = {}

    def readable(self, file: Entry) -> str:
        """Return a path Spark reads this file under: its own where that is safe."""
        path = str(file.location)
        plain = PLAIN_PATH.fullmatch(path) and not file.path.startswith("../")
        if file.layout in ("lines", "native") and plain and not self.uploads:
            # Spark gives the path back as a URI, in which a space is encoded.
            self.root, self.encoded = file.root, self.encoded or " " in path
            return path
        if file.path not in self.made:
            self.made[file.path] = no_pattern(self._stand_in(file))
        return self.made[file.path]

    def parsed(self, spark: SparkSession, files: Sequence[Entry], schema: StructType) -> ParsedFiles:
        """Return the records of text files as Parquet files, parsed once however often they are read."""
        key = (schema.json(), *(file.path for file in files))
        if key not in self.parts:
            made = self.ahead(files, schema) if self.ahead else None
            name = f"parts-{len(self.parts)}"
            parts = made or parse_batch(spark, files, schema, self.source, self.folder / name)
            rows, judged = (
                [self._shown(Path(part), f"{name}/{Path(part).name}") for part in each]
                for each in (parts.rows, parts.judged)
            )
            self.parts[key] = ParsedFiles(rows, judged)
        return self.parts[key]

    def original(self) -> Column:
        """Return the path a row's file has in the ledger, as a column; after ``readable`` of all files."""
        path = _below(self.root, self.encoded)
        if not self.names:
            return path
        # As one text: a literal for each of a thousand names takes the JVM gateway a second.
        names = F.from_json(F.lit(json.dumps(self.names)), "map<string,string>")
        is_staged = F.startswith(_path(self.encoded), F.lit(f"{self.uploads or self.folder}/"))
        return F.when(is_staged, F.try_element_at(names, self._staged())).otherwise(path)

    def modified(self) -> Column:
        """Return when a row's file was modified, in whole milliseconds; after ``readable`` of all files."""
        if not self.uploads:
            return F.col("_metadata.file_modification_time")
        times = F.from_json(F.lit(json.dumps(self.times)), "map<string,bigint>")
        return F.timestamp_millis(F.try_element_at(times, self._staged()))

    def discard(self) -> None:
        """Remove the copies."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.uploads:
            remove_tree(self.uploads)

    def _staged(self) -> Column:
        """Return the name of the copy that a row was read from."""
        return _below(str(self.uploads or self.folder), self.encoded)

    def _shown(self, copy: Path, name: str) -> str:
        """Return the path under which Spark finds a copy, which is uploaded where that is another."""
        if not self.uploads:
            return str(copy)
        target = f"{self.uploads}/{name}"
        upload(copy, target)
        return target

    def _stand_in(self, file: Entry) -> str:
        self.folder.mkdir(parents=True, exist_ok=True)
        linked = file.layout in ("lines", "native")
        suffix = "".join(Path(file.path).suffixes[-2:]) if linked else ENDINGS.get(file.layout, ".txt")
        plain = re.sub(r"[^\w.]", "", suffix, flags=re.ASCII)
        target = self.folder / f"file-{len(self.names):06d}{plain}"
        self.names[target.name] = file.path
        if linked:
            _link(file.location, target)
        elif file.layout == "rows":
            copy_exactly(file.location, self.source.format, target)
        else:
            with target.open("wb") as copy:
                copy.writelines(plain_pieces(file, self.source))
        self.times[target.name] = target.stat().st_mtime_ns // 1_000_000
        return self._shown(target, target.name)


def staging_of(spark: SparkSession, place: LoadTarget, ahead: Ahead | None = None) -> Staging:
    """Return the staging of a table's next batch, whose copies this session's executors see.

    Only the table's writer may have one: what another left behind is deleted.
    """
    uploads = None
    if isinstance(place.state, ObjectPath) and is_cluster(spark):
        remove_tree(place.state / "staging")
        # A writer that lost its lease and wakes up deletes its own copies alone.
        uploads = place.state / "staging" / uuid4().hex
    return Staging(scratch_of(place.state) / "staging", place.source, ahead, uploads)


def _path(encoded: bool) -> Column:
    """Return the local path of a row's file."""
    path = F.regexp_replace(F.col("_metadata.file_path"), "^file:(//)?", "")
    return F.url_decode(F.replace(path, F.lit("+"), F.lit("%2B"))) if encoded else path


def _below(folder: str, encoded: bool) -> Column:
    """Return the path of a row's file relative to a folder it is in."""
    start = "" if folder == "/" else folder
    path = F.substring(_path(encoded), len(start) + 2, MOST)
    if encoded:
        return path
    # For each row of a batch the expression of a regular one costs as much as parsing it.
    uri = F.col("_metadata.file_path")
    short = F.substring(uri, len(f"file://{start}") + 2, MOST)
    return F.when(uri.startswith("file:///"), short).otherwise(path)


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError:
        # Another file system, or one without hard links.
        shutil.copyfile(path, target)
