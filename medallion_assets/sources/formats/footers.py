"""What files that carry their own schema say of themselves: rows and columns, without Spark."""

from pathlib import Path

import fastavro
import pyarrow.orc
import pyarrow.parquet

from medallion_assets.sources.errors import UnreadableFile


def footer(path: Path, source_format: str) -> tuple[int, str]:
    """Return a parquet, orc or avro file's rows and its schema as text; equal texts share a reader.

    Raises:
        UnreadableFile: The file is empty, truncated or of another kind.
    """
    try:
        if source_format == "parquet":
            meta = pyarrow.parquet.read_metadata(path)
            return meta.num_rows, str(meta.schema.to_arrow_schema().remove_metadata())
        if source_format == "orc":
            file = pyarrow.orc.ORCFile(path)
            return file.nrows, str(file.schema.remove_metadata())
        return _avro(path)
    except (ValueError, EOFError, KeyError, StopIteration, pyarrow.ArrowException, OSError) as broken:
        raise UnreadableFile(f"no whole {source_format} file: {broken or type(broken).__name__}") from broken


def _avro(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        blocks = fastavro.block_reader(file)
        schema = str(blocks.writer_schema)
        return sum(block.num_records for block in blocks), schema
