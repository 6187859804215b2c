"""Copies of files that Spark cannot open or would read wrongly under their own name or format."""

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.delta.names import no_pattern
from medallion_assets.sources.counting import plain_pieces
from medallion_assets.sources.formats.exact_copy import copy_exactly
from medallion_assets.sources.formats.parsed_files import ParsedFiles
from medallion_assets.sources.formats.text_files import parse_batch
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source

PLAIN_PATH = re.compile(r"[\w /.@=,~-]+", re.ASCII)
"""Paths that Hadoop does not take for a glob, a URI scheme or an escape."""

ENDINGS = {"rows": ".parquet"}
MOST = 1 << 20
"""Characters a path has at most."""


Ahead = Callable[[Sequence[Entry], StructType], ParsedFiles | None]


class Staging:
    """A folder of copies for one micro-batch; deleted once the batch is written."""

    def __init__(self, folder: Path, source: Source, ahead: Ahead | None = None) -> None:
        """Use a folder of this batch alone; delete the copies of an earlier attempt that crashed.

        Args:
            folder: The folder of the copies.
            source: The files' source.
            ahead: Returns files that were parsed already.
        """
        shutil.rmtree(folder, ignore_errors=True)
        self.folder, self.source, self.ahead = folder, source, ahead
        self.root = ""
        self.names: dict[str, str] = {}
        self.made: dict[str, str] = {}
        self.encoded = " " in str(folder) or not PLAIN_PATH.fullmatch(str(folder))
        self.parts: dict[tuple[object, ...], ParsedFiles] = {}

    def readable(self, file: Entry) -> str:
        """Return a path Spark reads this file under: its own where that is safe."""
        path = str(file.location)
        plain = PLAIN_PATH.fullmatch(path) and not file.path.startswith("../")
        if file.layout in ("lines", "native") and plain:
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
            folder = self.folder / f"parts-{len(self.parts)}"
            self.parts[key] = made or parse_batch(spark, files, schema, self.source, folder)
        return self.parts[key]

    def original(self) -> Column:
        """Return the path a row's file has in the ledger, as a column; after ``readable`` of all files."""
        path = _below(self.root, self.encoded)
        if not self.names:
            return path
        # As one text: a literal for each of a thousand names takes the JVM gateway a second.
        names = F.from_json(F.lit(json.dumps(self.names)), "map<string,string>")
        staged = _below(str(self.folder), self.encoded)
        is_staged = F.startswith(_path(self.encoded), F.lit(f"{self.folder}/"))
        return F.when(is_staged, F.try_element_at(names, staged)).otherwise(path)

    def discard(self) -> None:
        """Remove the stand-ins."""
        shutil.rmtree(self.folder, ignore_errors=True)

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
        return str(target)


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
