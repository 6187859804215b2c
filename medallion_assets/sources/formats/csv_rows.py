"""A CSV file as rows of a schema: typed cells, what is rescued of them, and records that are no rows."""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import types

from medallion_assets.sources.errors import SourceError, UnreadableFile
from medallion_assets.sources.evolution import is_column
from medallion_assets.sources.formats.csv_blocks import Block, Cutter
from medallion_assets.sources.formats.csv_records import (
    NOT_TEXT,
    Dialect,
    column_names,
    has_header,
)
from medallion_assets.sources.formats.exact_values import TextOptions, arrow_type
from medallion_assets.sources.formats.parsed_files import (
    JUDGED,
    Parsed,
    ParsedFiles,
    file_groups,
    parse_files,
    readable,
)
from medallion_assets.sources.formats.typed_columns import ColumnGuess, typed_column
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.opening import CsvFile
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import NO_FIT

NO_COLUMN = "no column is called as the header has it: "
CASE_ONLY = "the header differs from the schema in case only, and there is no rescued data column: "


def csv_types(files: Sequence[Entry], source: Source, names: Sequence[str]) -> types.StructType:
    """Return the type of each column that gives back every text of it in these files."""
    guesses = {name: ColumnGuess() for name in names}
    options = text_options(source)
    for file in files:
        for _, cells in csv_cells(file, source):
            for name, column in cells.items():
                guesses[name].look(_without_null(column, options), options)
    return types.StructType([types.StructField(name, guess.kind()) for name, guess in guesses.items()])


def text_options(source: Source) -> TextOptions:
    """Return how a source's cells are written."""
    null = source.option("nullValue", default="")
    return TextOptions(
        null, source.option("dateFormat", default=""), source.option("timestampFormat", default="")
    )


def csv_cells(file: Entry, source: Source) -> Iterator[tuple[Block, dict[str, pa.Array]]]:
    """Return a file's blocks with their cells by column name.

    Raises:
        UnreadableFile: The file is not as it was counted.
    """
    names, dialect = column_names(file.header, source), Dialect.of(source)
    for _, block in csv_blocks(file, source):
        yield block, block.by_name(names, dialect)


def csv_blocks(file: Entry, source: Source) -> Iterator[tuple[CsvFile, Block]]:
    """Return a file's blocks, each with the text they are of.

    Raises:
        UnreadableFile: The file is not as it was counted.
    """
    text, cutter = CsvFile(file.location, source), Cutter(Dialect.of(source), has_header(source))
    width = len(column_names(file.header, source))
    for block in readable(cutter.blocks(text.pieces()), file):
        if len(block.begins) and width != cutter.width:
            reason = f"its header has {cutter.width} columns, {width} when it was counted"
            raise UnreadableFile(f"{file.location} cannot be read: {reason}")
        yield text, block


def parse_csv_files(
    files: Sequence[Entry], schema: types.StructType, source: Source, folder: Path
) -> ParsedFiles:
    """Write the files' records to Parquet files in a folder, typed by the schema.

    Raises:
        UnreadableFile: A file is damaged, or not as it was counted.
    """
    reader = RowReader(source, schema)
    return parse_files(chain.from_iterable(_tasks(group, reader) for group in file_groups(files)), folder)


def _tasks(files: list[Entry], reader: "RowReader") -> Iterator[Callable[[], list[Parsed]]]:
    cut = ((file, *block) for file in files for block in csv_blocks(file, reader.source))
    # Small files are one task; of a large one each block is cut here, and becomes rows in its own task.
    yield from (
        [partial(_parsed, reader, cut)] if len(files) > 1 else (partial(_parsed, reader, [b]) for b in cut)
    )


def _parsed(reader: "RowReader", cut: Iterable[tuple[Entry, CsvFile, Block]]) -> list[Parsed]:
    blocks = list(cut)
    whole = _parsed_together(reader, blocks) if len(blocks) > 1 and not reader.source.select else None
    return [whole] if whole else [reader.parsed(file, text, block) for file, text, block in blocks]


def _parsed_together(reader: "RowReader", cut: list[tuple[Entry, CsvFile, Block]]) -> Parsed | None:
    """Return the rows of small files at once, None where a file or a record of one has more to tell.

    Each call of pyarrow takes as long as some hundred rows: 305 files of 150 kB took 1.2 s one by one.
    """
    files = [file for file, _, _ in cut]
    for file, _, block in cut:
        if block.loose or block.refused or file.header != files[0].header:
            return None
        if file.records != len(block.begins):
            return None
    parsed = reader.parsed(files[0], cut[0][1], _joined([block for _, _, block in cut]))
    return None if parsed.judged else replace(parsed, origins=files)


def _joined(blocks: Sequence[Block]) -> Block:
    """Return blocks without loose or refused records as one block."""
    # A last record without a line end would run into the next file's first.
    data = [block.data + b"\n" for block in blocks]
    starts = np.cumsum([0, *map(len, data[:-1])])
    begins = [block.begins + start for block, start in zip(blocks, starts, strict=True)]
    ends = [block.ends + start for block, start in zip(blocks, starts, strict=True)]
    for block, rows in zip(blocks, ends, strict=True):
        rows[-1:] += not block.data.endswith((b"\n", b"\r"))
    lines = np.concatenate([block.lines for block in blocks])
    return Block(b"".join(data), np.concatenate(begins), np.concatenate(ends), lines, [], [])


def _without_null(cells: pa.Array, options: TextOptions) -> pa.Array:
    if not options.null:
        return cells
    return pc.if_else(pc.fill_null(pc.equal(cells, options.null), False), None, cells)


class RowReader:
    """Reads CSV files as rows of a schema."""

    def __init__(self, source: Source, schema: types.StructType) -> None:
        """Take how files are read.

        Args:
            source: What they come from.
            schema: The columns wanted.

        Raises:
            SourceError: Cells cannot be read as a column's type.
        """
        self.source, self.schema, self.options = source, schema, text_options(source)
        given = source.declared_columns() if source.infer_column_types else set(schema.names)
        self.inferred = set(schema.names) - given
        self.dialect = Dialect.of(source)
        try:
            self.columns = pa.schema([(field.name, arrow_type(field.dataType)) for field in schema.fields])
        except PySparkException as error:
            raise SourceError(f"source {source.name!r}: CSV cells cannot be read so: {error}") from error

    def parsed(self, file: Entry, text: CsvFile, block: Block) -> Parsed:
        """Return a block's records: the schema's columns, with ``JUDGED`` where one has more to tell."""
        parsed = Parsed([file], size=len(block.data))
        if len(block.begins):
            cells = block.by_name(column_names(file.header, self.source), self.dialect)
            self.add_rows(parsed, block, cells, file.path, file.refusal)
        if block.refused:
            records = [block.text(record.begin, record.end) for record in block.refused]
            kept = [
                base64.b64encode(text.original(record)).decode() if r.problem == NOT_TEXT else None
                for record, r in zip(records, block.refused, strict=True)
            ]
            parsed.judged.append(self.refused(block, [text.readable(record) for record in records], kept))
        return parsed

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

    def add_rows(
        self, parsed: Parsed, block: Block, cells: dict[str, pa.Array], path: str, refusal: str = ""
    ) -> None:
        """Add a block's records that have as many cells as they should; a refusal is why none is a row."""
        rows, columns, misfits = len(block.begins), [], {}
        for field in self.schema.fields:
            if field.name not in cells:
                columns.append(pa.nulls(rows, arrow_type(field.dataType)))
                continue
            texts = _without_null(cells[field.name], self.options)
            inferred = field.name in self.inferred
            values, lost = typed_column(texts, field.dataType, self.options, inferred)
            columns.append(values)
            if len(lost):
                misfits[field.name] = set(lost.tolist())
        problem = self.header_problem(list(cells)) or refusal
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
        table = pa.table(columns, self.columns)
        if not (rescued or reasons or self.source.select):
            parsed.rows.append(table)
            return
        raw = {row: block.text(block.begins[row], block.ends[row]).decode() for row in reasons}
        # Which rows a select list refuses is not known yet.
        placed = range(rows) if self.source.select else reasons
        places = {row: f"line {block.lines[row]}" for row in placed}
        for name, notes in zip(JUDGED.names, (rescued, raw, reasons, places, {}), strict=True):
            table = table.append_column(name, _spread(notes, rows))
        parsed.judged.append(table)

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

    def refused(self, block: Block, raw: list[str], kept: list[str | None]) -> pa.Table:
        """Return a block's records that are no rows."""
        places = [f"line {record.line}" for record in block.refused]
        reasons = [record.problem for record in block.refused]
        nulls = [pa.nulls(len(raw), kind) for kind in (*self.columns.types, pa.string())]
        notes = [pa.array(column, pa.string()) for column in (raw, reasons, places, kept)]
        return pa.table([*nulls, *notes], pa.schema([*self.columns, *JUDGED]))


def _member(name: str, text: str) -> str:
    return json.dumps(name, ensure_ascii=False) + ":" + json.dumps(text, ensure_ascii=False)


def _spread(found: dict[int, str], rows: int) -> pa.Array:
    if not found:
        return pa.nulls(rows, pa.string())
    return pa.array([found.get(row) for row in range(rows)], pa.string())
