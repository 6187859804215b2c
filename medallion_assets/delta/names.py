"""Column names and texts as SQL takes them, whatever characters they have.

As SQL, and not as one ``Column`` for each: building a thousand of those through the JVM gateway took 17 s.
"""

import re
from collections.abc import Iterable

RESERVED = "__medallion_"
"""How the names of the engine's own working columns begin; no column of a user's may."""


def quoted(name: str) -> str:
    """Return a column name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def no_pattern(path: str) -> str:
    """Return a path as Spark's readers of files take it, to whom ``{``, ``*`` and the like are a pattern."""
    return re.sub(r"([{}*?\[\]\\])", r"\\\1", path)


def literal(text: str) -> str:
    """Return a text as a SQL string."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def among(expression: str, names: Iterable[str]) -> str:
    """Return the SQL condition that an expression is one of these names."""
    listed = ", ".join(map(literal, names))
    return f"{expression} IN ({listed})" if listed else "false"
