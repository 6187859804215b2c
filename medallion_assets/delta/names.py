"""Column names and texts as SQL takes them, whatever characters they have.

As SQL, and not as one ``Column`` for each: building a thousand of those through the JVM gateway took 17 s.
"""

from collections.abc import Iterable

RESERVED = "__medallion_"
"""How the names of the engine's own working columns begin; no column of a user's may."""


def quoted(name: str) -> str:
    """Return a column name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Return a text as a SQL string."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def among(expression: str, names: Iterable[str]) -> str:
    """Return the SQL condition that an expression is one of these names."""
    listed = ", ".join(map(literal, names))
    return f"{expression} IN ({listed})" if listed else "false"
