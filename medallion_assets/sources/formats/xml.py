"""XML elements as JSON objects, so that one reader judges, evolves and rescues both."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from xml.parsers import expat

from pyspark.sql import types

from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats.exact_values import WHITE
from medallion_assets.sources.formats.json_scan import scan
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import CUT, MOST_SHOWN, CutRecord

JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
CHUNK = 1 << 16
MALFORMED = "malformed XML"
MOST_NAMES, SHOWN_NAMES = 100, 8
"""Names of elements that are no records: how many are looked through, and how many a message shows."""
ENTITIES = "it declares entities, which are never expanded"


class OneOrMany(types.ArrayType):
    """An array in XML, where an element that is there once looks like no array."""

    @classmethod
    def typeName(cls) -> str:  # noqa: N802 (Spark's name)
        """Return the name that Spark knows it by."""
        return "array"


class WithText(types.StructType):
    """A struct in XML, where an element with a text alone looks like no struct: its text is in ``own``."""

    own = ""

    @classmethod
    def typeName(cls) -> str:  # noqa: N802 (Spark's name)
        """Return the name that Spark knows it by."""
        return "struct"


class Refused(ValueError):
    """The document declares what could make a small file a large one, or reads other files."""


@dataclass
class Element:
    """An open element: its fields, each with its values as JSON in order, and its own texts in pieces."""

    name: str
    fields: dict[str, list[str]]
    texts: list[list[str]] = field(default_factory=lambda: [[]])
    children: bool = False


class Elements:
    """Takes a document piece by piece and gives its ``rowTag`` elements.

    Attributes and namespace declarations carry a prefix (``_``), an element's own text beside fields is
    under ``_VALUE``, repeated names make an array, and so do the pieces of a text that children part. Names
    keep their namespace prefix: all as in Spark's XML source. Comments and processing instructions are no
    values; white space around a text is none of it.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tag = source.option("rowTag", default="")
        self.prefix = source.option("attributePrefix", default="_")
        self.own = source.option("valueTag", default="_VALUE")
        self.open: list[Element] = []
        self.outside: dict[str, None] = {}
        self.any_record = self.any_content = False
        # Grows in place: a record of 64 MB took half a minute while it was copied with each piece.
        self.bytes, self.offset, self.start, self.done = bytearray(), 0, 0, 0
        self.found: list[CutRecord] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        # What a DTD adds to an element is not in it.
        self.parser.specified_attributes = True
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self._refuse
        self.parser.ExternalEntityRefHandler = self._refuse

    def take(self, piece: bytes) -> list[CutRecord]:
        """Return the records that end in the next piece of the document, empty for its end."""
        self.bytes += piece
        self.parser.Parse(piece, not piece)
        found, self.found = self.found, []
        self._forget()
        return found

    def rest(self) -> bytes:
        """Return the bytes from the last record's end, or from the start of the one that breaks off."""
        return bytes(self.bytes[max(self.start if self.open else self.done, self.offset) - self.offset :])

    def refuse_without_records(self) -> None:
        """Raise where a document that has something in it has no ``rowTag`` element.

        Raises:
            UnreadableFile: Most likely ``rowTag`` is wrong, and the file would be one of no records.
        """
        meant = next((n for n in self.outside if self.tag.lower() == n.rpartition(":")[2].lower()), "")
        if self.any_record or not (self.any_content or meant):
            return
        there = ", ".join([*self.outside][:SHOWN_NAMES]) + (
            ", ..." if len(self.outside) > SHOWN_NAMES else ""
        )
        raise UnreadableFile(
            f"no element of it is called {self.tag}, as rowTag says; its elements are {there}"
            + (f" (did you mean {meant}?)" if meant else "")
        )

    def _forget(self) -> None:
        keep = self.start if self.open else self.parser.CurrentByteIndex
        if keep > self.offset:
            del self.bytes[: keep - self.offset]
            self.offset = keep

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        if not self.open and self.tag not in (name, name.rpartition(":")[2]):
            # The root may stand alone: a delivery without a row.
            self.any_content = self.any_content or bool(self.outside)
            if len(self.outside) < MOST_NAMES:
                self.outside[name] = None
            return
        if not self.open:
            self.any_record = True
            self.start = self.parser.CurrentByteIndex
        fields = {self.prefix + key: [self._scalar(text)] for key, text in attributes.items()}
        self.open.append(Element(name, fields))

    def _text(self, text: str) -> None:
        if self.open:
            self.open[-1].texts[-1].append(text)
        elif not self.any_content:
            self.any_content = bool(text.strip(WHITE))

    def _end(self, _: str) -> None:
        if not self.open:
            return
        element = self.open.pop()
        value = self._value(element, top=not self.open)
        if self.open:
            self.open[-1].fields.setdefault(element.name, []).append(value)
            self.open[-1].texts.append([])
            self.open[-1].children = True
            return
        start, end = self.start - self.offset, self.parser.CurrentByteIndex - self.offset
        closed = not element.children and not any(element.texts) and self.bytes[:end].endswith(b"/>")
        if not closed:
            # Of any other element the parser says where its closing tag starts.
            end = self.bytes.find(b">", end) + 1
        text = self.bytes[start:end]
        self.done = self.offset + end
        self.found.append(CutRecord(value, text.decode("utf-8", "surrogateescape")))

    def _value(self, element: Element, top: bool) -> str:
        texts = ["".join(pieces).strip(WHITE) for pieces in element.texts]
        if not element.fields and not top:
            return self._scalar(texts[0])
        own = [self._scalar(text) for text in texts if text]
        if own:
            element.fields.setdefault(self.own, []).extend(own)
        parts = (f"{_string(name)}: {_one_or_array(values)}" for name, values in element.fields.items())
        return f"{{{', '.join(parts)}}}"

    def _scalar(self, text: str) -> str:
        # Only a typed column is helped by a number; its digits stay as they are.
        if self.source.typed and (text in ("true", "false") or JSON_NUMBER.fullmatch(text)):
            return text if not self.source.infer_column_types or _reads_back(text) else _string(text)
        return _string(text) if text else "null"

    def _refuse(self, *_: Any) -> int:
        raise Refused(ENTITIES)


def elements(file: BinaryIO, source: Source) -> Iterator[CutRecord]:
    """Return each ``rowTag`` element as a record.

    Where the file breaks, what comes after the last whole element is one record more, with its text and what
    is wrong with it. Entities are never expanded.

    Raises:
        UnreadableFile: The document is not empty, and none of its elements is a record.
    """
    document = Elements(source)
    try:
        while piece := file.read(CHUNK):
            yield from document.take(piece)
        yield from document.take(b"")
        document.refuse_without_records()
    except (expat.ExpatError, Refused, UnicodeDecodeError, LookupError) as broken:
        yield from document.found
        shown, reason = document.rest()[: MOST_SHOWN + 1], f"{MALFORMED}: {broken}"
        while len(shown) <= MOST_SHOWN and (piece := file.read(CHUNK)):
            shown += piece
        if len(shown) > MOST_SHOWN:
            shown, reason = shown[:MOST_SHOWN], reason + CUT
        yield CutRecord("", shown.decode("utf-8", "surrogateescape").strip(WHITE), reason)


def _one_or_array(values: list[str]) -> str:
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"


def _reads_back(text: str) -> bool:
    """Return true where a number is written as a program would write it: else its type is text."""
    if text in ("true", "false"):
        return True
    # Python refuses integers of more than 4,300 digits.
    return text != "-0" if text.lstrip("-").isdigit() else text == repr(float(text))


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def in_xml(kind: types.DataType, source: Source) -> types.DataType:
    """Return a type as XML elements are read, the types inside of it too."""
    if isinstance(kind, types.ArrayType):
        return OneOrMany(in_xml(kind.elementType, source))
    if isinstance(kind, types.MapType):
        return types.MapType(kind.keyType, in_xml(kind.valueType, source))
    if isinstance(kind, types.StructType):
        found = WithText([types.StructField(f.name, in_xml(f.dataType, source)) for f in kind.fields])
        found.own = source.option("valueTag", default="_VALUE")
        return found
    return kind


def as_typed_xml(text: str) -> str:
    """Return an element's JSON as typed columns read it; where none has a type, numbers are strings."""
    pieces, at, values = [], 0, [scan(text)]
    while values:
        value = values.pop()
        if value.kind == "string" and (
            value.content in ("true", "false") or JSON_NUMBER.fullmatch(value.content)
        ):
            pieces += [text[at : value.start], value.content]
            at = value.end
        elif value.kind in ("array", "object"):
            inner = value.content if value.kind == "array" else [member[2] for member in value.content]
            values += reversed(inner)
    return "".join([*pieces, text[at:]])
