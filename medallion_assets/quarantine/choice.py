"""The filter for quarantined rows, fixes of their columns, and ``discard``."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sqlglot
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sqlglot import exp
from sqlglot.errors import SqlglotError

from medallion_assets.declare.errors import ReplayRefused
from medallion_assets.declare.table import Table
from medallion_assets.delta import log, working
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.names import among, literal, quoted
from medallion_assets.delta.rollback import roll_back
from medallion_assets.lake.paths import Lake, sole_writer
from medallion_assets.quarantine.entries import SETTLES, STEP, move_entries
from medallion_assets.sources.quarantine import DISCARDED, OPEN, named_as


@dataclass(frozen=True)
class QuarantineFilter:
    """A filter for open entries: all given conditions hold; without any, every open entry.

    Attributes:
        ids: Entry ids, or how they begin.
        rules: Rows that broke one of these.
        reasons: Reason classes of ``sources.quarantine.REASONS``.
        files: Landing files, by path or the end of one.
        where: SQL over the quarantine's columns.
    """

    ids: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    where: str = ""

    @property
    def condition(self) -> str:
        """The filter as a SQL predicate.

        Raises:
            ReplayRefused: ``where`` is not a SQL condition.
        """
        conditions = [f"status = {literal(OPEN)}"]
        conditions += [_any(f"startswith(entry_id, {literal(i)})" for i in self.ids)] if self.ids else []
        conditions += [_any(f"array_contains(rules, {literal(r)})" for r in self.rules)] if self.rules else []
        conditions += [among("reason_class", self.reasons)] if self.reasons else []
        conditions += [_any(named_as("source_file", f) for f in self.files)] if self.files else []
        conditions += [f"({_read(f'SELECT 1 WHERE {self.where}', self.where)})"] if self.where else []
        return " AND ".join(conditions)


def fixes_of(text: str) -> dict[str, str]:
    """Return a fix (``quantity = abs(quantity), email = lower(email)``) as SQL by column.

    Raises:
        ReplayRefused: The text is not a list of ``column = expression``.
    """
    if not text.strip():
        return {}
    try:
        found = sqlglot.parse_one(f"UPDATE t SET {text}", dialect="databricks")
    except SqlglotError as error:
        raise ReplayRefused(f"the fix {text!r} is no list of column = expression: {error}") from error
    pairs = found.args.get("expressions") or []
    if found.args.get("where") or not all(isinstance(p, exp.EQ) and _is_column(p.this) for p in pairs):
        raise ReplayRefused(f"the fix {text!r} is no list of column = expression")
    return {pair.this.name: _lenient(pair.expression) for pair in pairs}


def mended(rows: DataFrame, fixes: Mapping[str, str]) -> DataFrame:
    """Return the rows with each fixed column computed from the row as it was; types stay.

    Raises:
        ReplayRefused: A column is unknown.
    """
    types = {f.name: f.dataType for f in rows.schema.fields}
    odd = [name for name in fixes if name not in types]
    if odd:
        known = ", ".join(name for name in types if name not in ("entry_id", "was", working.UNFIT))
        words = f"the fix names unknown columns: {', '.join(odd)}; these rows have {known}"
        raise ReplayRefused(f"{words}. Nothing was moved.")
    columns = {n: F.expr(fixes[n]).try_cast(t) if n in fixes else F.col(quoted(n)) for n, t in types.items()}
    return rows.select(*(column.alias(name) for name, column in columns.items()))


def _any(conditions: Iterable[str]) -> str:
    return f"({' OR '.join(conditions)})"


def _read(statement: str, text: str) -> str:
    try:
        found = sqlglot.parse_one(statement, dialect="spark")
    except SqlglotError as error:
        raise ReplayRefused(f"{text!r} is no SQL condition: {error}") from error
    if not isinstance(found, exp.Select) or found.find(exp.Subquery):
        raise ReplayRefused(f"{text!r} is no SQL condition")
    return str(found.args["where"].this.sql(dialect="spark"))


def _lenient(expression: exp.Expr) -> str:
    """Return an expression as SQL in which a failing cast gives NULL instead of an error."""

    def soften(node: exp.Expr) -> exp.Expr:
        if type(node) is exp.Cast:
            return exp.TryCast(this=node.this, to=node.args["to"])
        return node

    return expression.transform(soften).sql(dialect="databricks")


def _is_column(found: object) -> bool:
    return isinstance(found, exp.Column)


def discard(
    table: Table, lake: Lake, spark: SparkSession, choice: QuarantineFilter, why: str, dry_run: bool = False
) -> int:
    """Mark chosen open entries as discarded and return their number. Conservation still counts them.

    Raises:
        ReplayRefused: The reason is missing, or the filter is not valid; nothing was changed.
        TableBusy: Another process writes the table.
    """
    if not why.strip():
        raise ReplayRefused("give the reason with --why; it is stored with the rows. Nothing was changed")
    path = lake.quarantine(table)
    with sole_writer(table, lake):
        if not log.exists(path):
            return 0
        roll_back(spark, lake.path(table), path, uuid.uuid4().hex)
        entries = spark.read.format("delta").load(str(path)).where(choice.condition)
        values = {"status": F.lit(DISCARDED), "note": F.lit(why), "tried_at": F.current_timestamp()}
        changes = entries.select("entry_id").withColumns(values).withColumn(STEP, F.lit(SETTLES))
        count = entries.count()
        if count and not dry_run:
            note = {"run_id": uuid.uuid4().hex, "table": table.key, "discard": why}
            move_entries(changes, path, Transaction(f"{table.key}/discard/{note['run_id']}", 0, note))
    return count
