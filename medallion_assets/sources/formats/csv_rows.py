"""A CSV file as rows of a schema: typed cells, what is rescued of them, and records that are no rows."""

import base64
import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.types import StructField, StructType

from medallion_assets.sources.counted_lines import Contents, tag_of
from medallion_assets.sources.errors import SourceError, UnreadableFile
from medallion_assets.sources.evolution import is_column
from medallion_assets.sources.formats.csv_blocks import Block, Cutter, Refused
from medallion_assets.sources.formats.csv_records import (
    NO_HEADER,
    NOT_TEXT,
    OPEN_QUOTE,
    Dialect,
    RecordReader,
    column_names,
    has_header,
    header_text,
)
from medallion_assets.sources.formats.exact_cells import CellOptions, arrow_type
from medallion_assets.sources.formats.typed_cells import ColumnGuess, typed_cells
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.opening import CsvFile
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import NO_FIT

NO_COLUMN = "no column is called as the header has it: "
CASE_ONLY = "the header differs from the schema in case only, and there is no rescued data column: "

NOTES = ("rescued", "raw", "bytes", "position", "reason")
"""Columns of text behind the schema's: see ``csv.csv_records``."""


def csv_contents(path: Path, source: Source) -> Contents:
    """Return a CSV file's tag, its count of records and its header.

    The count is of the records' ends; the rows that are held against it are what pyarrow makes of them.
    """
    cutter = Cutter(Dialect.of(source), has_header(source))
    records = sum(block.records for block in cutter.blocks(CsvFile(path, source).pieces()))
    names = [f"_c{n}" for n in range(cutter.width)]
    return Contents(
        tag_of(path), records, "cells", header_text((cutter.first or []) if has_header(source) else names)
    )


def csv_types(files: Sequence[Entry], source: Source, names: Sequence[str]) -> StructType:
    """Return the type of each column that gives back every text of it in these files."""
    guesses = {name: ColumnGuess() for name in names}
    options = cell_options(source)
    for file in files:
        for _, block, cells in csv_cells(file, source):
            for name, column in cells.items() if len(block.begins) else ():
                guesses[name].look(_without_null(column, options), options)
    return StructType([StructField(name, guess.kind()) for name, guess in guesses.items()])


def cell_options(source: Source) -> CellOptions:
    """Return how a source's cells are written."""
    null = source.option("nullValue", default="")
    return CellOptions(
        null, source.option("dateFormat", default=""), source.option("timestampFormat", default="")
    )


def csv_cells(file: Entry, source: Source) -> Iterator[tuple[CsvFile, Block, dict[str, pa.Array]]]:
    """Return a file's blocks with their cells by column name.

    Raises:
        UnreadableFile: The file is not as it was counted.
    """
    text, dialect = CsvFile(file.location, source), Dialect.of(source)
    names, cutter = column_names(file.header, source), Cutter(dialect, has_header(source))
    for block in cutter.blocks(text.pieces()):
        if len(block.begins) and len(names) != cutter.width:
            raise UnreadableFile(f"its header has {cutter.width} columns, {len(names)} when it was counted")
        cells = block.cells(cutter.width, dialect) if len(block.begins) else []
        yield text, block, dict(zip(names, cells, strict=False))


def _without_null(cells: pa.Array, options: CellOptions) -> pa.Array:
    if not options.null:
        return cells
    return pc.if_else(pc.fill_null(pc.equal(cells, options.null), False), None, cells)


class RowReader:
    """Reads CSV files as rows of a schema."""

    def __init__(self, source: Source, schema: StructType) -> None:
        """Take how files are read.

        Args:
            source: What they come from.
            schema: The columns wanted.

        Raises:
            SourceError: Cells cannot be read as a column's type.
        """
        self.source, self.schema, self.options = source, schema, cell_options(source)
        given = source.declared_columns() if source.infer_column_types else set(schema.names)
        self.inferred = set(schema.names) - given
        try:
            kinds = [arrow_type(field.dataType) for field in schema.fields]
        except PySparkException as error:
            raise SourceError(f"source {source.name!r}: CSV cells cannot be read so: {error}") from error
        fields = [(f"c{number}", kind) for number, kind in enumerate(kinds)]
        self.layout = pa.schema([*fields, *((name, pa.string()) for name in NOTES)])

    def tables(self, file: Entry) -> Iterator[pa.Table]:
        """Return a file's records block by block: ``c0``, ``c1`` of the schema's types, and ``NOTES``."""
        for text, block, cells in csv_cells(file, self.source):
            if len(block.begins):
                yield self._rows(block, cells, file.path)
            if block.refused:
                records = [block.text(record.begin, record.end) for record in block.refused]
                kept = [
                    base64.b64encode(text.original(record)).decode() if r.problem == NOT_TEXT else None
                    for record, r in zip(records, block.refused, strict=True)
                ]
                yield self._refused(block, [text.readable(record) for record in records], kept)

    def again(
        self, texts: dict[str, str], names: Sequence[str], path: str, not_text: Collection[str]
    ) -> pa.Table:
        """Return records of a file read again, each from a text by itself.

        Args:
            texts: The records, by a key that stands for their file in the last column of what is returned.
            names: The file's columns.
            path: The file.
            not_text: Keys of records whose text is exact only once nobody finds U+FFFD in it.
        """
        reader, width = RecordReader(Dialect.of(self.source)), len(names)
        data = bytearray()
        good: list[tuple[str, int, int, tuple[bytes | None, ...]]] = []
        bad: list[tuple[str, Refused]] = []
        for key, text in texts.items():
            # A record that a select list failed on was kept by its columns.
            text = _as_csv(text, names, reader.dialect) if self.source.select else text
            begin, line = len(data), text.rstrip("\r\n").encode("utf-8", "replace")
            data += line + b"\n"
            record = reader.read(line, 0, True, width)
            assert record is not None
            several = record.is_blank or record.end < len(line)
            problem = record.problem or (OPEN_QUOTE if several else "" if width else NO_HEADER)
            if key in not_text and "\ufffd" in text:
                problem = NOT_TEXT
            if problem:
                bad.append((key, Refused(begin, len(data), 0, problem)))
            else:
                good.append((key, begin, len(data), record.cells))
        begins, ends = (np.array([row[i] for row in good], np.int64) for i in (1, 2))
        loose, refused = [row[3] for row in good], [record for _, record in bad]
        block = Block(bytes(data), begins, ends, begins, loose, refused)
        cells = dict(zip(names, block.cells(width, reader.dialect), strict=False)) if good else {}
        raw = [texts[key] for key, _ in bad]
        rows = [self._rows(block, cells, path)] if good else []
        rows += [self._refused(block, raw, [None] * len(raw))] if bad else []
        keys = [key for key, *_ in good] + [key for key, _ in bad]
        return pa.concat_tables(rows).append_column("key", pa.array(keys, pa.string()))

    def none_again(self) -> pa.Table:
        """Return no record, in the columns of ``again``."""
        return self.layout.append(pa.field("key", pa.string())).empty_table()

    def header_problem(self, names: Sequence[str]) -> str:
        """Say why no record of a file with these columns can be a row, empty where each can."""
        if set(names) & set(self.schema.names) or not names:
            return self._lost_by_case(names)
        lower = {name.lower() for name in self.schema.names}
        by_case = any(name.lower() in lower for name in names)
        # A header that names no column is most likely a record itself.
        odd_names = not self.source.schema and not any(map(is_column, names))
        if self.source.rescued and (by_case or odd_names):
            return ""
        return (NO_COLUMN + ", ".join(names))[:500]

    def _lost_by_case(self, names: Sequence[str]) -> str:
        missing = {name.lower(): name for name in self.schema.names if name not in names}
        pairs = [f"{name} for {missing[name.lower()]}" for name in names if name.lower() in missing]
        return CASE_ONLY + ", ".join(pairs) if pairs and not self.source.rescued else ""

    def _rows(self, block: Block, cells: dict[str, pa.Array], path: str) -> pa.Table:
        rows, columns, misfits = len(block.begins), [], {}
        for field in self.schema.fields:
            if field.name not in cells:
                columns.append(pa.nulls(rows, arrow_type(field.dataType)))
                continue
            texts = _without_null(cells[field.name], self.options)
            inferred = field.name in self.inferred
            values, lost = typed_cells(texts, field.dataType, self.options, inferred)
            columns.append(values)
            if len(lost):
                misfits[field.name] = set(lost.tolist())
        problem = self.header_problem(list(cells))
        reasons: dict[int, str] = {}
        rescued: dict[int, str] = {}
        if problem:
            reasons = dict.fromkeys(range(rows), problem)
        elif not self.source.rescues_values:
            for row in sorted(set().union(*misfits.values())):
                unfit = (name for name, lost in misfits.items() if row in lost)
                reasons[row] = f"{NO_FIT}: {', '.join(unfit)}"
            misfits = {}
        if self.source.rescued and not problem:
            rescued = self._rescued(cells, misfits, path)
            rescued = {row: found for row, found in rescued.items() if row not in reasons}
        raw = {row: block.text(block.begins[row], block.ends[row]).decode() for row in reasons}
        places = {row: f"line {block.lines[row]}" for row in reasons}
        notes = (_spread(found, rows) for found in (rescued, raw, {}, places, reasons))
        return pa.table([*columns, *notes], self.layout)

    def _rescued(self, cells: dict[str, pa.Array], misfits: dict[str, set[int]], path: str) -> dict[int, str]:
        """Return by row what no column takes, as JSON with the file it is from."""
        parts: dict[int, list[str]] = {}
        for name, column in cells.items():
            if name in self.schema.names:
                continue
            there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
            for row, text in zip(there.tolist(), column.drop_null().to_pylist(), strict=True):
                parts.setdefault(row, []).append(_member(name, text))
        for name, lost in misfits.items():
            rows = sorted(lost)
            for row, text in zip(rows, cells[name].take(pa.array(rows)).to_pylist(), strict=True):
                parts.setdefault(row, []).append(_member(name, text))
        end = "," + _member("_file_path", path) + "}"
        return {row: "{" + ",".join(members) + end for row, members in parts.items()}

    def _refused(self, block: Block, raw: list[str], kept: list[str | None]) -> pa.Table:
        places = [f"line {record.line}" for record in block.refused]
        reasons = [record.problem for record in block.refused]
        nulls = [pa.nulls(len(raw), kind) for kind in self.layout.types]
        notes = [pa.array(column, pa.string()) for column in (raw, kept, places, reasons)]
        return pa.table([*nulls[: -len(notes)], *notes], self.layout)


def _as_csv(text: str, names: Sequence[str], dialect: Dialect) -> str:
    """Return a record that is kept as a JSON object as CSV; any other as it is."""
    try:
        cells = json.loads(text)
    except ValueError:
        return text
    if not isinstance(cells, dict):
        return text
    q, e = dialect.quote, dialect.escape
    values = (cells.get(name) for name in names)
    escaped = (
        None if v is None else str(v).replace(e, e * 2).replace(q, e + q if e != q else q) for v in values
    )
    return dialect.sep.join("" if value is None else q + value + q for value in escaped)


def _member(name: str, text: str) -> str:
    return json.dumps(name, ensure_ascii=False) + ":" + json.dumps(text, ensure_ascii=False)


def _spread(found: dict[int, str], rows: int) -> pa.Array:
    if not found:
        return pa.nulls(rows, pa.string())
    return pa.array([found.get(row) for row in range(rows)], pa.string())
