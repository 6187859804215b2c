"""A CSV file as pieces of UTF-8 text, whatever it is wrapped in."""

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

from medallion_assets.sources.counted_lines import BLOCK_BYTES
from medallion_assets.sources.opening import record_encoding, wrapping
from medallion_assets.sources.options import Source

BLOCK = 4 * BLOCK_BYTES
AS_BYTES = "medallion_assets.bytes"
ESCAPED = re.compile("[\udc00-\udcff]+")
UTF_8 = ("utf-8", "utf-8-sig", "ascii")


def _bytes_as_surrogates(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(chr(0xDC00 + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(AS_BYTES, _bytes_as_surrogates)


class CsvFile:
    """A CSV file's text in pieces of UTF-8, whatever it is wrapped in."""

    def __init__(self, path: Path, source: Source) -> None:
        self.path, self.wrapping = path, wrapping(path, source)
        self.encoding = self.wrapping.encoding

    def pieces(self) -> Iterator[bytes]:
        """Return the text; a byte that is none in its encoding stays what it is, or is a lone surrogate."""
        with self.wrapping.opened(self.path) as file:
            if self.encoding in UTF_8:
                file.read(len(codecs.BOM_UTF8) if self.encoding == "utf-8-sig" else 0)
                while piece := file.read(BLOCK):
                    yield piece
                return
            decoder = codecs.getincrementaldecoder(self.encoding)(AS_BYTES)
            while piece := file.read(BLOCK):
                yield decoder.decode(piece).encode("utf-8", "surrogatepass")
            yield decoder.decode(b"", True).encode("utf-8", "surrogatepass")

    def readable(self, text: bytes) -> str:
        """Return the text of a record with U+FFFD for bytes that are none."""
        if self.encoding in UTF_8:
            return text.decode("utf-8", "replace")
        return ESCAPED.sub(lambda found: "\ufffd" * len(found[0]), text.decode("utf-8", "surrogatepass"))

    def original(self, text: bytes) -> bytes:
        """Return a record's bytes as they are in the file."""
        if self.encoding in UTF_8:
            return text
        encoding = record_encoding(self.path, self.wrapping)
        parts = re.split("([\udc00-\udcff])", text.decode("utf-8", "surrogatepass"))
        return b"".join(
            bytes([ord(part) - 0xDC00]) if ESCAPED.fullmatch(part) else part.encode(encoding)
            for part in parts
        )
