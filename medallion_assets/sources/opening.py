"""A file's text whatever it is wrapped in: compression, encoding, and pieces of UTF-8."""

import bz2
import codecs
import gzip
import io
import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from medallion_assets.sources.counted_lines import BLOCK_BYTES
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.options import Source

MAGIC = {
    b"\x1f\x8b": "gzip",
    # A header may begin with the first three letters alone.
    **{b"BZh%d%b" % (level, mark): "bz2" for level in range(1, 10) for mark in (b"1AY&SY", b"\x17rE8P\x90")},
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ": "xz",
    b"\x04\x22\x4d\x18": "lz4",
}
ENDINGS = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".bz2": "bz2",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".xz": "xz",
    ".lz4": "lz4",
}
SPARK_READS = {".gz": "gzip", ".bz2": "bz2"}
"""What Spark decompresses by itself, and only under these names; zstd needs a native Hadoop it has not."""

MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip


@dataclass(frozen=True)
class Wrapping:
    """The codec and the encoding between a file's bytes and its text."""

    codec: str
    encoding: str
    plain: bool
    """Return true where Spark reads the file right as it lies."""

    @property
    def errors(self) -> str:
        """How bytes that are no text in the encoding become lone surrogates, and these the bytes again."""
        return "surrogatepass" if self.encoding.startswith(("utf-16", "utf-32")) else "surrogateescape"

    def opened(self, path: Path) -> BinaryIO:
        """Return the file's bytes, decompressed."""
        if self.codec in ("zstd", "lz4"):
            return io.BufferedReader(pa.input_stream(str(path), compression=self.codec))
        opener = {"": open, "gzip": gzip.open, "bz2": bz2.open, "xz": lzma.open}[self.codec]
        return opener(path, "rb")  # type: ignore[no-any-return, operator]

    def text(self, path: Path) -> io.TextIOWrapper:
        """Return the file's text; bytes that are none in its encoding become lone surrogates."""
        return io.TextIOWrapper(self.opened(path), self.encoding, errors=self.errors, newline="")


def wrapping(path: Path, source: Source) -> Wrapping:
    """Return how the file is wrapped; its bytes decide, and a mark at their start before the option.

    Raises:
        UnreadableFile: The name promises a compression that the bytes are not.
    """
    with path.open("rb") as file:
        head = file.read(max(map(len, MAGIC)))
    codec = next((name for magic, name in MAGIC.items() if head.startswith(magic)), "")
    promised = ENDINGS.get(path.suffix.lower(), "")
    if promised and promised != codec and head:
        raise UnreadableFile(f"its name says {promised}, its bytes do not")
    by_spark = codec == SPARK_READS.get(path.suffix, "")
    declared = codecs.lookup(source.option("encoding", "charset", default="utf-8")).name
    start = Wrapping(codec, "utf-8", True).opened(path)
    with start:
        head = start.read(4)
    marked = next((encoding for mark, encoding in MARKS if head.startswith(mark)), "")
    return Wrapping(codec, marked or declared, by_spark and not marked and declared in ("utf-8", "ascii"))


def record_encoding(path: Path, wrapped: Wrapping) -> str:
    """Return the encoding that a record's text becomes the file's bytes with: no mark, and its byte order."""
    if wrapped.encoding not in ("utf-16", "utf-32"):
        return "utf-8" if wrapped.encoding == "utf-8-sig" else wrapped.encoding
    with wrapped.opened(path) as file:
        start = file.read(4)
    big = start.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE))
    return f"{wrapped.encoding}-{'be' if big else 'le'}"


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
