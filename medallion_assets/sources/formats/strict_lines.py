"""JSON lines read by a strict reader outside Spark, all of a file or none: one sound object to a line."""

import pyarrow as pa
import pyarrow.json

BLOCK = 4 << 20
"""Bytes parsed at once; a longer record is left to the careful reader."""


def strictly_read(data: bytes, records: int, columns: pa.Schema | None = None) -> pa.Table | None:
    """Return a file's lines as rows, None where one of them is anything but a sound object that fits.

    Args:
        data: The file.
        records: The lines that are not blank.
        columns: The only fields there may be, and their types; None takes what is there.
    """
    if not _an_object_a_line(data, records):
        return None
    return rows_of(data, records, columns)


def rows_of(data: bytes, records: int, columns: pa.Schema | None = None) -> pa.Table | None:
    """Return ``strictly_read`` of lines that are known to start and end as objects."""
    unknown = "infer" if columns is None else "error"
    parse = pa.json.ParseOptions(explicit_schema=columns, unexpected_field_behavior=unknown)
    try:
        read = pa.json.read_json(pa.BufferReader(data), pa.json.ReadOptions(block_size=BLOCK), parse)
        # The reader itself takes bytes that are no UTF-8.
        read.validate(full=True)
    except (pa.ArrowException, ValueError):
        return None
    return read if read.num_rows == records else None


def _an_object_a_line(data: bytes, records: int) -> bool:
    """Return true where each line starts as an object and ends as one, so that no value spans two lines.

    Two values on one line then make more rows than lines, which is seen by counting.
    """
    body = data.removesuffix(b"\n").removesuffix(b"\r")
    whole = body.startswith(b"{") and body.endswith(b"}")
    # Counted by patterns: a look at each byte takes as long as parsing them.
    ends, between = body.count(b"\n"), body.count(b"}\n{")
    if b"\r" in body:
        between += body.count(b"}\r\n{")
        whole = whole and body.count(b"\r") == body.count(b"\r\n")
    return whole and ends == between == records - 1
