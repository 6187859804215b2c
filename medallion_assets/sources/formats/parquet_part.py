"""A Parquet file of rows from many landed files, which Spark reads in their place."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from medallion_assets.sources.ledger import Entry

ROW_GROUP = 32 << 20
"""Bytes of landed text in a row group, which is the least that Spark reads by itself."""

FROM = pa.schema([("_source_file", pa.string()), ("_source_modified_at", pa.timestamp("us", "UTC"))])


class ParquetPart:
    """A Parquet file that is there once a row came, each row with the file it came from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.waiting: list[pa.Table] = []
        self.bytes = 0
        self.writer: pq.ParquetWriter | None = None

    def __enter__(self) -> "ParquetPart":
        return self

    def __exit__(self, *error: object) -> None:
        self._write()
        if self.writer:
            self.writer.close()

    @property
    def written(self) -> list[str]:
        """The file, once a row came."""
        return [str(self.path)] if self.writer else []

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
