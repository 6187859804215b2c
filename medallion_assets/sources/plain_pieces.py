"""A file's records as lines of plain text: decompressed, decoded, cut up where they are not a line each."""

from collections.abc import Iterator

from medallion_assets.sources.cut_records import CutRecord
from medallion_assets.sources.formats.json_documents import documents
from medallion_assets.sources.formats.xml import elements
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.opening import SPARK_READS, wrapping
from medallion_assets.sources.options import Source

CHUNK = 1 << 20
CUT_LAYOUTS = ("document", "elements")


def plain_pieces(file: Entry, source: Source) -> Iterator[bytes]:
    """Return a file's records as UTF-8 lines, piece by piece, whatever it is wrapped in."""
    path = file.location
    if file.layout == "lines" and file.size <= CHUNK and path.suffix not in SPARK_READS:
        # What thousands of small files are opened for is little beside their openings.
        yield path.read_bytes()
        return
    wrapped = wrapping(path, source)
    if file.layout == "lines":
        with wrapped.opened(path) as lines:
            while block := lines.read(CHUNK):
                yield block
    elif file.layout == "recoded":
        with wrapped.text(path) as text:
            while chunk := text.read(CHUNK):
                yield chunk.encode("utf-8", wrapped.errors)
    else:
        errors = wrapped.errors if file.layout == "document" else "strict"
        yield from (f"{record.line}\n".encode("utf-8", errors) for record in cut_records(file, source))


def cut_records(file: Entry, source: Source) -> Iterator[CutRecord]:
    """Return the records of a file whose layout is one of ``CUT_LAYOUTS``."""
    path = file.location
    wrapped = wrapping(path, source)
    if file.layout == "document":
        # A file that discovery cut up is cut up, whatever its first value is by now.
        yield from documents(path, wrapped, "true") or ()
        return
    with wrapped.opened(path) as xml:
        yield from elements(xml, source)
