"""Column names and texts as SQL takes them, and rows by the keys of others.

As SQL, and not as one ``Column`` for each: building a thousand of those through the JVM gateway took 17 s.
"""

import re
from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

RESERVED = "__medallion_"
"""Prefix of the engine's temporary columns; no column of a user may have it."""


def quoted(name: str) -> str:
    """Return a column name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def no_pattern(path: str) -> str:
    """Return a path for Spark's file readers, with ``{``, ``*`` and other pattern characters escaped."""
    return re.sub(r"([{}*?\[\]\\])", r"\\\1", path)


def literal(text: str) -> str:
    """Return a text as a SQL string."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def among(expression: str, names: Iterable[str]) -> str:
    """Return the SQL condition that an expression is one of these names."""
    listed = ", ".join(map(literal, names))
    return f"{expression} IN ({listed})" if listed else "false"


def folded(name: str) -> str:
    """Return a name as Spark compares names: columns or fields of one folded name cannot be told apart.

    Java compares without case letter by letter, in upper and in lower case: ``s`` is also a long ``s``, and
    the micro sign a Greek mu, which ``str.lower`` leaves apart.
    """
    upper = (letter.upper() if len(letter.upper()) == 1 else letter for letter in name)
    return "".join(letter.lower()[0] for letter in upper)


def of_keys(rows: DataFrame, keys: DataFrame, how: str = "left_semi") -> DataFrame:
    """Return the rows whose values are in ``keys``, or with ``left_anti`` the rows whose values are not.

    Args:
        rows: Any rows that have the columns of ``keys``.
        keys: The columns to compare; NULL equals NULL.
        how: ``left_semi`` or ``left_anti``.
    """
    named = map(quoted, keys.columns)
    same = reduce(Column.__and__, (rows[n].eqNullSafe(F.col(f"_key.{n}")) for n in named), F.lit(True))
    return rows.join(keys.alias("_key"), same, how)
