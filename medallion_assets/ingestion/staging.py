"""Second, safe names for files that Spark cannot open or would read wrongly under their own."""

import os
import re
import shutil
from pathlib import Path

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.ingestion.documents import as_documents
from medallion_assets.ingestion.ledger import Entry

PLAIN_PATH = re.compile(r"[\w /.@=,~-]+", re.ASCII)
"""Paths outside this Hadoop takes for a glob, a URI scheme or an escape."""


class Staging:
    """A folder of stand-ins for one micro-batch's odd files; gone once the batch is written."""

    def __init__(self, folder: Path) -> None:
        """Takes a folder this batch alone uses; what an earlier, dead attempt left there goes."""
        shutil.rmtree(folder, ignore_errors=True)
        self.folder = folder
        self.names: dict[str, str] = {}

    def readable(self, file: Entry) -> str:
        """Gives a path Spark reads this file under: its own where that is safe."""
        if file.layout == "document" and file.header == "":
            return self._stand_in(file, ".json", as_documents(Path(file.path)))
        if PLAIN_PATH.fullmatch(file.path):
            return file.path
        return self._stand_in(file, "".join(Path(file.path).suffixes[-2:]), None)

    def original(self) -> Column:
        """Gives the path a row's file has in the landing zone, as a column."""
        # _metadata.file_path is a URI: its path part is percent-encoded.
        path = F.regexp_replace(F.col("_metadata.file_path"), "^file:(//)?", "")
        path = F.url_decode(F.replace(path, F.lit("+"), F.lit("%2B")))
        if not self.names:
            return path
        pairs = [F.lit(text) for pair in self.names.items() for text in pair]
        return F.coalesce(F.element_at(F.create_map(*pairs), F.col("_metadata.file_name")), path)

    def discard(self) -> None:
        """Removes the stand-ins."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _stand_in(self, file: Entry, suffix: str, records: list[str] | None) -> str:
        self.folder.mkdir(parents=True, exist_ok=True)
        plain = re.sub(r"[^\w.]", "", suffix, flags=re.ASCII)
        target = self.folder / f"file-{len(self.names):06d}{plain}"
        self.names[target.name] = file.path
        if records is not None:
            target.write_text("".join(f"{record}\n" for record in records), encoding="utf-8")
        else:
            _link(file.path, target)
        return str(target)


def _link(path: str, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError:
        # Another file system, or one without hard links.
        shutil.copyfile(path, target)
