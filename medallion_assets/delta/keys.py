"""Rows by the keys of others: NULL is a key like any, as it is to a MERGE of ours."""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta.names import quoted


def of_keys(rows: DataFrame, keys: DataFrame, how: str = "left_semi") -> DataFrame:
    """Return the rows whose values stand in ``keys``, or with ``left_anti`` those whose do not.

    Args:
        rows: Any rows that have the columns of ``keys``.
        keys: The columns they are told by; NULL equals NULL.
        how: ``left_semi`` or ``left_anti``.
    """
    named = map(quoted, keys.columns)
    same = reduce(Column.__and__, (rows[n].eqNullSafe(F.col(f"_key.{n}")) for n in named), F.lit(True))
    return rows.join(keys.alias("_key"), same, how)
