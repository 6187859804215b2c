"""A file's records as lines of plain text: decompressed, decoded, cut up where they are not a line each."""

from collections.abc import Iterator
from pathlib import Path

from medallion_assets.sources.formats.json_documents import as_documents
from medallion_assets.sources.formats.xml import elements
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.opening import wrapping
from medallion_assets.sources.options import Source

CHUNK = 1 << 20


def plain_pieces(file: Entry, source: Source) -> Iterator[bytes]:
    """Return a file's records as UTF-8 lines, piece by piece, whatever it is wrapped in."""
    path = Path(file.path)
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
    else:
        with wrapped.opened(path) as xml:
            yield from (_bytes(f"{record}\n") for record in elements(xml, source))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
