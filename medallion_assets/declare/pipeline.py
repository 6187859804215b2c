"""A pipeline's decorators: a query function in, a frozen ``Table`` out, checked as it loads."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import DataFrame

from medallion_assets.declare.errors import DeclarationError, UnknownTable, nearest, refuse_unknown
from medallion_assets.declare.expectations import Expectation, OnViolation, SetRule, expect
from medallion_assets.declare.layout import Layout
from medallion_assets.declare.scd import Changes
from medallion_assets.declare.table import Layer, OutputMode, Read, RowsOut, Table
from medallion_assets.declare.validation import refuse_flow, refuse_what_cannot_work, with_warnings
from medallion_assets.delta.comments import comments_of
from medallion_assets.sources import Source
from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.kafka import Topic
from medallion_assets.sources.load_target import source_of
from medallion_assets.sources.quarantine import JOIN, KEY


def implied(
    keys: Sequence[str], reads: Sequence[tuple[str, Read]], scd: Changes | None, mode: OutputMode
) -> Iterator[Expectation]:
    """Return the rules a declaration implies: keys are there, and static rows are found."""
    windows = any(read.watermark for _, read in reads)
    named = keys if mode == "append" and not windows else ()
    for key in (*named, *((*scd.keys, scd.sequence_by) if scd else ())):
        yield replace(expect(f"{key}_present", f"`{key}` IS NOT NULL"), reason=KEY)
    for name, read in reads:
        if read.unmatched and not read.asked_by:
            outcome: OnViolation = "warn" if read.unmatched == "keep" else "quarantine"
            yield replace(expect(f"{name}_matched", f"_check_{name}_matched", outcome), reason=JOIN)
    if scd:
        yield replace(expect("untied_sequence", "_check_untied"), reason=KEY)


def by_row(rules: Sequence[SetRule]) -> Iterator[Expectation]:
    """Return what rows are judged by: the columns these predicates speak of are made for each batch."""
    for rule in rules:
        if rule.judges_rows:
            refers = rule.kind == "references"
            column = f"_check_{rule.name}" + ("_matched" if refers else "")
            yield replace(expect(rule.name, column, rule.on_violation), reason=JOIN if refers else KEY)


def looked_up(rules: Sequence[SetRule]) -> Iterator[tuple[str, Read]]:
    """Return the tables that row rules refer to, as static inputs that the query takes no frame of."""
    for rule in rules:
        if rule.judges_rows and rule.kind == "references":
            read = Read("static", rule.other, on=rule.columns, unmatched="quarantine", asked_by=rule.name)
            yield rule.name, read


Query = Callable[..., DataFrame | str]

DECLARED: dict[str, Mapping[str, Table]] = {}
"""The tables of each pipeline that this process declared, by its name."""


def declared_beside(table: Table) -> Iterator[Table]:
    """Return the tables of every pipeline that this process declared, the table's own with them.

    A landing zone or a table may have readers of several pipelines.
    """
    for tables in {**DECLARED, table.pipeline: table.registry}.values():
        yield from tables.values()


def readers_of(table: Table) -> list[Table]:
    """Return the tables of any pipeline that read this one: as a stream, in a flow or whole."""
    itself = table.registry.get(table.key, table)
    return [other for other in declared_beside(table) if any(up is itself for up in other.upstream)]


@dataclass(frozen=True)
class Pipeline:
    """A named set of tables with one owner and one folder in the lake and in landing."""

    name: str
    owners: tuple[str, ...] = ()
    description: str = ""
    tables: dict[str, Table] = field(default_factory=dict, compare=False, repr=False)

    def landing(self, name: str, **options: Any) -> Any:
        """Say that a parameter takes the records of new files in ``<landing>/<pipeline>/<name>/``.

        Args:
            name: The source's folder.
            options: Those of ``sources.Source``.
        """
        return Read("files", source=_source(name, options))

    def copy_into(self, name: str, *, merge_schema: bool = False, pattern: str = "*", **options: Any) -> Any:
        """Say that a parameter takes the files of a source as COPY INTO would: each once, the schema fixed.

        Args:
            name: The source's folder.
            merge_schema: New columns join the table; without it they stop the load.
            pattern: A glob for file names.
            options: Those of ``sources.Source``.
        """
        mode = "addNewColumns" if merge_schema else "failOnNewColumns"
        defaults = {"schema_evolution_mode": mode, "mistyped": "QUARANTINE", "path_glob_filter": pattern}
        return Read("files", source=_source(name, options, defaults))

    def kafka(
        self,
        name: str,
        *,
        topic: str = "",
        servers: str = "",
        format: str = "json",  # noqa: A002
        starting_offsets: Literal["earliest", "latest"] = "earliest",
        fail_on_data_loss: bool = True,
        **options: Any,
    ) -> Any:
        """Say that a parameter takes a Kafka topic's messages, landed as files in a folder of its own.

        Args:
            name: The source's folder.
            topic: One of the folder's name where empty.
            servers: ``host:port`` with commas; those of the setting ``kafka_conf`` where empty.
            format: ``json``, ``text`` for strings, ``binaryFile`` for bytes as they are.
            starting_offsets: ``earliest`` or ``latest``: where the first run begins.
            fail_on_data_loss: False goes on where messages were removed before they were read, and says so.
            options: Those of ``sources.Source``.
        """
        messages = Topic(topic or name, servers, starting_offsets, fail_on_data_loss)
        ours = {"kafka": messages, "format": format, "settle_seconds": 0, "partition_columns": ()}
        return Read("files", source=_source(name, options | ours))

    def bronze(self, **options: Any) -> Callable[[Query], Table]:
        """Declares a table of records as they landed; ``options`` are those of ``declare``."""
        return self._declaring("bronze", options)

    def silver(self, **options: Any) -> Callable[[Query], Table]:
        """Declares a table of cleaned, joined rows; ``options`` are those of ``declare``."""
        return self._declaring("silver", options)

    def gold(self, **options: Any) -> Callable[[Query], Table]:
        """Declares a table of answers; ``options`` are those of ``declare``."""
        return self._declaring("gold", options)

    def _declaring(self, layer: Layer, options: dict[str, Any]) -> Callable[[Query], Table]:
        known = [
            p.name for p in inspect.signature(self.declare).parameters.values() if p.kind is p.KEYWORD_ONLY
        ]
        refuse_unknown(f"{self.name}.{layer}(...)", options, known)
        given = {name: value for name, value in options.items() if value is not None}
        return lambda query: self.declare(layer, query, **given)

    def flow(self, into: Table) -> Callable[[Query], Table]:
        """Declares a further stream into a table, with its own checkpoint and the table's rules.

        Raises:
            DeclarationError: The table's rows cannot come from several streams.
        """

        def joined(query: Query) -> Table:
            stream = replace(into, query=query, reads=_reads(query), declared_at=_place(query),
                             flow=query.__name__, flows=[])  # fmt: skip
            refuse_flow(stream, into)
            stream = with_warnings(stream)
            into.flows.append(stream)
            return stream

        return joined

    def declare(
        self,
        layer: Layer,
        query: Query,
        *,
        output_mode: OutputMode = "append",
        expectations: Sequence[Expectation | SetRule] = (),
        unique_by: str | Sequence[str] = (),
        row_count_column: str = "",
        once: bool = False,
        scd: Changes | None = None,
        window_overlap: int = 1,
        layout: Layout | None = None,
        unique_over: str = "",
        unique_within: str = "",
        write_audit_publish: bool = False,
        rows_out: RowsOut = "one",
        trigger: str = "",
        fresh_within: str = "",
    ) -> Table:
        """Return the table this query fills; the options are the attributes of ``Table``.

        Raises:
            DeclarationError: The declaration cannot work; the message names the table and its line.
        """
        keys = (unique_by,) if isinstance(unique_by, str) else tuple(unique_by)
        of_rows = [rule for rule in expectations if isinstance(rule, Expectation)]
        of_sets = [rule for rule in expectations if isinstance(rule, SetRule)]
        reads = (*_reads(query), *looked_up(of_sets))
        rules = (*of_rows, *by_row(of_sets), *implied(keys, reads, scd, output_mode))
        mode = "changes" if scd else output_mode
        table = Table(
            self.name, layer, query.__name__, query, reads, mode, rules, keys, row_count_column,
            self.owners, _place(query), once, self.tables, scd, window_overlap,
            _with_comments(layout or Layout(), reads), unique_over, unique_within,
            write_audit_publish=write_audit_publish,
            set_rules=tuple(rule for rule in of_sets if not rule.judges_rows),
            one_each=tuple(rule for rule in of_sets if rule.judges_rows and rule.kind == "unique"),
            rows_out=rows_out, trigger=trigger, fresh_within=fresh_within,
        )  # fmt: skip
        refuse_what_cannot_work(table, {other.key: other for other in declared_beside(table)})
        table = with_warnings(table)
        self.tables[table.key] = table
        DECLARED[self.name] = self.tables
        return table


def _with_comments(layout: Layout, reads: Sequence[tuple[str, Read]]) -> Layout:
    """Return the layout with the comments in the schema of a landing zone; its own win."""
    comments = {k: v for _, read in reads if read.source for k, v in comments_of(read.source.schema).items()}
    return replace(layout, column_comments=comments | dict(layout.column_comments)) if comments else layout


def _reads(query: Query) -> tuple[tuple[str, Read], ...]:
    parameters = inspect.signature(query).parameters.values()
    unmarked = [p.name for p in parameters if not isinstance(p.default, Read)]
    if unmarked:
        raise DeclarationError(
            f"{_place(query)}: parameter {', '.join(unmarked)} of {query.__name__} does not say what it "
            "reads; give it stream(table), static(table) or pipeline.landing(source) as default"
        )
    return tuple((p.name, p.default) for p in parameters)


def _source(name: str, options: dict[str, Any], defaults: Mapping[str, Any] | None = None) -> Source:
    """Return a declared source; its options may have the names of ``sources.option_names`` too."""
    others = {key: value for key, value in options.items() if key not in ("format", "path")}
    source_format = options.get("format") or options.get("cloudFiles.format")
    if not source_format:
        raise DeclarationError(
            f"source {name!r} has no format: give format='json', 'csv', 'parquet' or another"
        )
    try:
        return source_of(name, source_format, options.get("path") or "", others, defaults)
    except SourceError as error:
        raise SourceError(f"{_caller()}: landing zone {name!r}: {error}") from error


def _caller() -> str:
    """Return the file and line of the declaration that calls the package."""
    engine = Path(__file__).parent
    outside = (frame for frame in inspect.stack(0) if Path(frame.filename).parent != engine)
    return next((f"{frame.filename}:{frame.lineno}" for frame in outside), "")


def _place(query: Query) -> str:
    return f"{inspect.getsourcefile(query)}:{inspect.getsourcelines(query)[1]}"


def chosen(pipelines: Mapping[str, Pipeline], names: Iterable[str] = ()) -> list[Table]:
    """Return the tables of these pipelines and keys, upstream first; all of them for no name.

    Raises:
        UnknownTable: A name is neither a pipeline nor ``pipeline/layer/table`` (``.`` serves for ``/``).
    """
    wanted: dict[str, Table] = {}
    for name in names or pipelines:
        wanted |= _meant(pipelines, name.replace(".", "/"))
    return upstream_first(wanted.values())


def upstream_first(tables: Iterable[Table]) -> list[Table]:
    """Return the tables ordered so that each comes after all tables it reads."""
    ordered: dict[str, Table] = {}
    wanted = {t.key: t for t in tables}

    def place(table: Table) -> None:
        for up in table.upstream:
            if up.key in wanted:
                place(up)
        ordered.setdefault(table.key, table)

    for table in wanted.values():
        place(table)
    return list(ordered.values())


def _meant(pipelines: Mapping[str, Pipeline], name: str) -> dict[str, Table]:
    if name in pipelines:
        return pipelines[name].tables
    for pipeline in pipelines.values():
        if name in pipeline.tables:
            return {name: pipeline.tables[name]}
    known = [*pipelines, *(key for p in pipelines.values() for key in p.tables)]
    raise UnknownTable(
        f"no pipeline or table is called {name!r}{nearest(name, known)}; there are: {', '.join(known)}"
    )
