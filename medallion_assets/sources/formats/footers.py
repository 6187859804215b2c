"""What files that carry their own schema say of themselves: rows, columns, and who can read them."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyarrow.parquet as pq

from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats.avro import avro_batches, avro_blocks
from medallion_assets.sources.formats.exact_copy import (
    has_odd_columns,
    is_read_exactly,
    orc_batches,
    parquet_batches,
    write_copy,
)

BATCHES: dict[str, Callable[[Path], tuple[pa.Schema, Iterator[pa.RecordBatch]]]] = {
    "parquet": parquet_batches, "orc": orc_batches, "avro": avro_batches,
}  # fmt: skip


def footer(path: Path, source_format: str) -> tuple[int, str, str]:
    """Return a Parquet, ORC or Avro file's rows, layout (as in ``Contents``) and schema as text.

    Files of equal layout and text share a reader. The layout is ``rows`` where Spark reads a copy.

    Raises:
        UnreadableFile: The file is empty, truncated, of another kind, or of a schema no table can have.
    """
    try:
        rows, exact, schema = {"parquet": _parquet, "orc": _orc, "avro": _avro}[source_format](path)
    except UnreadableFile:
        raise
    except Exception as broken:
        # The readers raise whatever they trip over in a damaged file.
        reason = str(broken) or type(broken).__name__
        raise UnreadableFile(f"not a whole {source_format} file: {reason}") from broken
    # The types alone: what writers note beside them differs from file to file.
    bare = pa.schema([pa.field(f.name, f.type, f.nullable) for f in schema])
    return rows, "native" if exact else "rows", str(bare)


def copy_exactly(path: Path, source_format: str, copy: Path) -> None:
    """Write a Parquet copy of a file that Spark reads with the values the file has.

    Raises:
        UnreadableFile: Its rows cannot be read.
    """
    try:
        write_copy(*BATCHES[source_format](path), copy)
    except UnreadableFile as broken:
        raise UnreadableFile(f"{path} cannot be read: {broken}") from broken
    except Exception as broken:
        if isinstance(broken, OSError) and broken.errno:
            raise
        # Its counts were whole; inside, a reader raises whatever it trips over.
        reason = str(broken) or type(broken).__name__
        raise UnreadableFile(f"{path} cannot be read as {source_format}: {reason}") from broken


def _parquet(path: Path) -> tuple[int, bool, pa.Schema]:
    file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
    exact = is_read_exactly(file.schema_arrow) and not has_odd_columns(file.metadata)
    return file.metadata.num_rows, exact, file.schema_arrow


def _orc(path: Path) -> tuple[int, bool, pa.Schema]:
    file = pyarrow.orc.ORCFile(path)
    # ORC keeps nanoseconds, of which Spark would cut what is below a microsecond.
    timed = [f.name for f in file.schema if "timestamp" in str(f.type)]
    seconds = pa.schema([f for f in file.schema if f.name not in timed])
    exact = is_read_exactly(pa.schema([*seconds, *(pa.field(name, pa.int64()) for name in timed)]))
    # Of some other names Spark's reader makes columns of NULL.
    exact = exact and all(re.fullmatch(r"[\w.]+", name) for name in file.schema.names)
    return file.nrows, exact and not (timed and _has_nanoseconds(file, timed)), file.schema


def _has_nanoseconds(file: pyarrow.orc.ORCFile, timed: list[str]) -> bool:
    try:
        for stripe in range(file.nstripes):
            for values in file.read_stripe(stripe, columns=timed).columns:
                if not pa.types.is_timestamp(values.type):
                    return True
                whole = values.cast(pa.timestamp("us"), safe=False).cast(values.type)
                if not pc.all(pc.equal(whole, values), min_count=0).as_py():
                    return True
    except pa.ArrowInvalid as error:
        if "out of range" not in str(error):
            raise
        # Years that pyarrow's nanoseconds cannot hold are Spark's to read.
    return False


def _avro(path: Path) -> tuple[int, bool, pa.Schema]:
    schema, records = avro_blocks(path)
    return records, False, schema
