"""A file's records as lines of plain text: decompressed, decoded, cut up where they are not a line each."""

import json
from collections.abc import Iterator
from itertools import islice

from medallion_assets.sources.formats.csv_contents import csv_rows
from medallion_assets.sources.formats.csv_header import column_names
from medallion_assets.sources.formats.csv_text import Row
from medallion_assets.sources.formats.json_documents import as_documents
from medallion_assets.sources.formats.xml import elements
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.opening import wrapping
from medallion_assets.sources.options import Source

NO_HEADER = "the file's header cannot be read"
NOT_TEXT = "not text in the file's encoding"
CHUNK = 1 << 20


def plain_pieces(file: Entry, source: Source) -> Iterator[bytes]:
    """Return a file's records as UTF-8 lines, piece by piece, whatever it is wrapped in."""
    path = file.location
    wrapped = wrapping(path, source)
    if file.layout == "lines":
        with wrapped.opened(path) as lines:
            while block := lines.read(CHUNK):
                yield block
    elif file.layout == "recoded":
        with wrapped.text(path) as text:
            while chunk := text.read(CHUNK):
                yield _bytes(chunk)
    elif file.layout == "document":
        multi_line = source.option("multiLine", default="auto")
        yield from (_bytes(f"{r}\n") for r in as_documents(path, wrapped, multi_line) or ())
    elif file.layout == "elements":
        with wrapped.opened(path) as xml:
            yield from (_bytes(f"{record}\n") for record in elements(xml, source))
    else:
        by_name = source.option("header", default="true") == "true"
        rows = islice(csv_rows(path, source, wrapped), 1 if by_name and file.header else 0, None)
        names = column_names(file.header, source)
        yield from (_bytes(f"{_cells(row, names)}\n") for row in rows)


def _cells(row: Row, names: list[str]) -> str:
    readable = row.text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if readable != row.text:
        return json.dumps({"f": dict.fromkeys(names), "r": readable, "p": NOT_TEXT})
    # The text itself is kept for what is refused only: it would double what Spark reads.
    if not names:
        return json.dumps({"f": {}, "r": readable, "p": row.problem or NO_HEADER})
    cells = dict(zip(names, row.cells, strict=False)) if row.cells else dict.fromkeys(names)
    return json.dumps({"f": cells, "r": row.text if row.problem else None, "p": row.problem or None})


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
