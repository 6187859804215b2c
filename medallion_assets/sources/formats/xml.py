"""XML elements as JSON objects, so that one reader judges, evolves and rescues both."""

import json
import re
from collections.abc import Iterator
from typing import BinaryIO
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import iterparse

from medallion_assets.sources.options import Source

JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
LONGEST_NUMBER = 300
"""Spark's JSON parser refuses a number of more than 1,000 digits."""


def elements(file: BinaryIO, source: Source) -> Iterator[str]:
    """Return each ``rowTag`` element as a JSON text of one line: attributes, children, text.

    Attributes carry a prefix (``_``), an element's own text beside them stands under ``_VALUE``, repeated
    children make an array, all as in Spark's XML source. Where the file breaks, what comes after the
    last whole element is one record more, which is no JSON: quarantined with the parser's words.
    Entities are never expanded.
    """
    tag, depth = source.option("rowTag", default=""), 0
    try:
        for event, element in iterparse(file, events=("start", "end"), forbid_dtd=False):
            if _name(element) != tag:
                continue
            depth += 1 if event == "start" else -1
            if event == "end" and depth == 0:
                yield _value(element, source)
                element.clear()
    except (ParseError, DefusedXmlException, UnicodeDecodeError, LookupError) as broken:
        yield f"the XML breaks off here: {str(broken) or type(broken).__name__}".replace("\n", " ")


def _value(element: Element, source: Source) -> str:
    prefix, own = source.option("attributePrefix", default="_"), source.option("valueTag", default="_VALUE")
    found = {prefix + _local(k): [_scalar(v, source)] for k, v in element.attrib.items()}
    for child in element:
        found.setdefault(_name(child), []).append(_value(child, source))
    text = (element.text or "").strip()
    if not found:
        return _scalar(text, source)
    if text:
        found[own] = [_scalar(text, source)]
    fields = (
        f"{_string(name)}: {v[0] if len(v) == 1 else '[' + ', '.join(v) + ']'}" for name, v in found.items()
    )
    return "{" + ", ".join(fields) + "}"


def _scalar(text: str, source: Source) -> str:
    # Only a typed column is helped by a number: as a string, 1.10 keeps its digits.
    if source.typed and (
        text in ("true", "false") or (JSON_NUMBER.fullmatch(text) and len(text) <= LONGEST_NUMBER)
    ):
        return text
    return _string(text) if text else "null"


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _name(element: Element) -> str:
    return _local(str(element.tag))


def _local(name: str) -> str:
    return name.rpartition("}")[2]
