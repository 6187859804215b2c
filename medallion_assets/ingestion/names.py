"""Column names as SQL takes them."""


def quoted(name: str) -> str:
    """Gives a column name in backticks, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
