"""COPY INTO's select list: columns as SQL, where a value that cannot be cast is refused, not fatal."""

import sqlglot
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from sqlglot import exp

from medallion_assets.delta.names import quoted
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import BYTES, POSITION

DIALECT = "databricks"
"""sqlglot's name for the Spark SQL whose casts are strict, as Spark 4's are."""

PROVENANCE = ("_raw", "_reason", "_source_file", "_source_modified_at", POSITION, BYTES)


def selected(records: DataFrame, source: Source) -> DataFrame:
    """Return the records with the list's columns; a record one of whose casts fails has a ``_reason``.

    Spark's casts are strict: one value that does not fit would fail the whole load. Each becomes a
    ``try_cast``, and a value that was there and is gone after it refuses its record.
    """
    parsed = [sqlglot.parse_one(text, dialect=DIALECT) for text in source.select]
    failures = [
        _failed(cast)
        for expression in parsed
        for cast in expression.find_all(exp.Cast)
        if type(cast) is exp.Cast
    ]
    columns = [F.expr(lenient(expression)) for expression in parsed]
    own = [c for c in records.columns if c not in (*PROVENANCE, source.rescued)]
    wrong = F.concat_ws("; ", *failures) if failures else F.lit("")
    reason = F.coalesce("_reason", F.when(wrong != "", wrong))
    raw = F.coalesce("_raw", F.when(reason.isNotNull(), F.to_json(F.struct(*map(quoted, own)))))
    rescued = [source.rescued] if source.rescued else []
    origin = [name for name in PROVENANCE[2:] if name in records.columns]
    return records.select(*columns, *rescued, raw.alias("_raw"), reason.alias("_reason"), *origin)


def _failed(cast: exp.Expr) -> Column:
    before = lenient(cast.this)
    after = lenient(cast)
    words = f"cannot cast {before} to {cast.args['to'].sql(dialect='spark')}"
    return F.when(F.expr(f"({before}) IS NOT NULL AND ({after}) IS NULL"), F.lit(words))


def lenient(expression: exp.Expr) -> str:
    """Return an expression as SQL in which a cast that fails gives NULL, and does not fail the query."""

    def soften(node: exp.Expr) -> exp.Expr:
        if type(node) is exp.Cast:
            return exp.TryCast(this=node.this, to=node.args["to"])
        return node

    return expression.transform(soften).sql(dialect=DIALECT)
