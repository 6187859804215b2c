"""Columns from ``key=value`` folders: their names, and each file's values in the columns' types.

A value that its column's type cannot hold exactly is rescued like a value of the file; where the source
rescues none, the file's records are quarantined.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import AtomicType, DataType, StructType

from medallion_assets.delta.names import quoted
from medallion_assets.sources.evolution import is_column
from medallion_assets.sources.formats.exact_values import NotExact, exact_value
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import NO_FIT, as_json, with_part
from medallion_assets.sources.select_list import record_text

FOLDER = re.compile(r"(?:^|/)([A-Za-z_][A-Za-z0-9_]*)=[^/]*(?=/)")
"""A folder whose key becomes a column without declaration; a declared key may be any text."""
NO_VALUES = ("", "__HIVE_DEFAULT_PARTITION__")
"""Texts after the ``=`` that mean NULL."""


def partition_keys(paths: Iterable[str], source: Source) -> list[str]:
    """Return the keys of ``key=value`` folders that become columns: those declared, or all there are.

    Only folders below the landing zone's root count; of keys that differ in case the first is the column.
    """
    if source.partition_columns is not None:
        return list(source.partition_columns)
    found: dict[str, str] = {}
    for path in paths:
        for key in FOLDER.findall(path):
            if is_column(key):
                found.setdefault(key.lower(), key)
    return list(found.values())


def own_columns(schema: StructType, paths: Iterable[str], source: Source) -> StructType:
    """Return the columns that the files themselves fill: all but those of their folders."""
    folders = {key.lower() for key in partition_keys(paths, source)}
    return StructType([field for field in schema.fields if field.name.lower() not in folders])


def with_refusals(files: Sequence[Entry], source: Source, schema: StructType) -> list[Entry]:
    """Return the files, with a refusal where a folder's value does not fit its column.

    The readers refuse all records of such a file; the records keep their whole text and position.
    """
    if source.rescues_values:
        return list(files)
    paths = [file.path for file in files]
    own = set(own_columns(schema, paths, source).names)
    whys = dict.fromkeys(paths, "")
    for field in (field for field in schema.fields if field.name not in own):
        misfits = set(_misfits(paths, field.name, field.dataType))
        for path in paths if misfits else ():
            if (text := _text_of(path, field.name)) in misfits:
                whys[path] += f"{', ' if whys[path] else f'{NO_FIT}: '}{field.name}={_decoded(text)}"
    return [replace(file, refusal=whys[file.path]) if whys[file.path] else file for file in files]


def with_partitions(
    frame: DataFrame, paths: Sequence[str], source: Source, schema: StructType, file_column: str
) -> DataFrame:
    """Return records with the columns that their files' folders give; see the module for misfits.

    Args:
        frame: Records without those columns; ``file_column`` STRING is their file's path. Where misfits are
            quarantined, readers of files have refused their records by then (``with_refusals``).
        paths: The files.
        source: Where they come from.
        schema: All columns.
        file_column: The column of paths.
    """
    own = set(own_columns(schema, paths, source).names)
    found = [field for field in schema.fields if field.name not in own]
    if not found:
        return frame
    tail = {c: F.col(quoted(c)) for c in frame.columns if c not in schema.names}
    values = []
    for field in found:
        text, value = _text(field.name, file_column, paths)
        atomic = isinstance(field.dataType, AtomicType)
        fits = value.try_cast(field.dataType) if atomic else F.lit(None).cast(field.dataType)
        misfits = _misfits(paths, field.name, field.dataType)
        values.append((F.when(~text.isin(misfits), fits) if misfits else fits).alias(field.name))
        misfit = F.when(text.isin(misfits), value)
        if misfits and source.rescues_values:
            name = source.rescued
            tail[name] = with_part(tail[name], as_json(misfit), field.name, F.col(file_column))
        elif misfits:
            tail["_reason"] = F.coalesce(tail["_reason"], F.concat(F.lit(f"{NO_FIT}: {field.name}="), misfit))
    own_values = [quoted(c) for c in frame.columns if c in own]
    if not source.rescues_values:
        text = record_text(frame.select(*own_values), source.rescued, file_column)
        tail["_raw"] = F.coalesce(tail["_raw"], F.when(tail["_reason"].isNotNull(), text))
    return frame.select(*own_values, *values, *(c.alias(name) for name, c in tail.items()))


def _text(key: str, file_column: str, paths: Iterable[str]) -> tuple[Column, Column]:
    """Return a folder's value as text, NULL where it means NULL; first as it is, then decoded."""
    text = F.regexp_extract(file_column, f"(?iu){_folder_of(key)}", 1)
    text = F.when(~text.isin(*NO_VALUES), text)
    decoded = F.try_url_decode(F.replace(text, F.lit("+"), F.lit("%2B")))
    # Spark would write U+FFFD for bytes that are no text.
    kept = sorted({found for path in paths if "%" in (found := _text_of(path, key)) == _decoded(found)})
    return text, F.when(text.isin(kept), text).otherwise(decoded) if kept else decoded


ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


def _decoded(text: str) -> str:
    """Return a folder's value without its percent escapes; unchanged where they do not spell a text."""
    try:
        return text if ESCAPE.search(text) else unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text


def _folder_of(key: str) -> str:
    """Return a pattern, of Python and of Java, for a key's folder in a path, escaped there or not."""
    signs = (
        "|".join([re.escape(sign), *sorted({*map(_escaped, (sign.lower(), sign.upper()))})]) for sign in key
    )
    return f"(?:^|/){''.join(f'(?:{sign})' for sign in signs)}=([^/]*)/"


def _escaped(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


@cache
def _pattern_of(key: str) -> re.Pattern[str]:
    return re.compile(_folder_of(key), re.IGNORECASE)


def _text_of(path: str, key: str) -> str:
    found = _pattern_of(key).search(path)
    return found[1] if found else ""


def _misfits(paths: Iterable[str], key: str, kind: DataType) -> list[str]:
    """Return the folders' values, as text, that the type cannot hold exactly."""
    texts = {_text_of(path, key) for path in paths}
    return [text for text in sorted(texts - set(NO_VALUES)) if not _is_exact(_decoded(text), kind)]


def _is_exact(text: str, kind: DataType) -> bool:
    try:
        exact_value(text, kind)
    except NotExact:
        return False
    return True
