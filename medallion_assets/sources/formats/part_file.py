"""A Parquet file of lines from many files, each row with the file it came from."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from medallion_assets.sources.ledger import Entry

AT_ONCE = 32 << 20
"""Bytes of landed files in a row group, which is the least that Spark reads by itself."""

FROM = pa.schema([("_source_file", pa.string()), ("_source_modified_at", pa.timestamp("us", "UTC"))])


class Part:
    """A Parquet file that is there once a row came."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_suffix(".parquet")
        self.waiting: list[pa.Table] = []
        self.bytes = 0
        self.writer: pq.ParquetWriter | None = None

    def __enter__(self) -> "Part":
        return self

    def __exit__(self, *error: object) -> None:
        self._write()
        if self.writer:
            self.writer.close()

    @property
    def written(self) -> list[str]:
        """The file, once a row came."""
        return [str(self.path)] if self.writer else []

    def add(self, rows: pa.Table, file: Entry) -> None:
        """Add a file's rows."""
        if not len(rows):
            return
        # Spark tells a file's time in whole milliseconds.
        at = file.modified_at - timedelta(microseconds=file.modified_at.microsecond % 1000)
        for name, value in zip(FROM.names, (file.path, at), strict=True):
            rows = rows.append_column(
                FROM.field(name), pa.repeat(pa.scalar(value, FROM.field(name).type), len(rows))
            )
        self.waiting.append(rows)
        self.bytes += file.size
        if self.bytes >= AT_ONCE:
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
