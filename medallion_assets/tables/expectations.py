"""Rules of good rows: SQL predicates, and what becomes of a row that breaks one."""

from dataclasses import dataclass
from typing import Literal

import sqlglot
from sqlglot.errors import SqlglotError

from medallion_assets.tables.errors import DeclarationError

Otherwise = Literal["warn", "drop", "quarantine", "fail"]
OUTCOMES = ("warn", "drop", "quarantine", "fail")


@dataclass(frozen=True)
class Expectation:
    """A named predicate that is true of a good row; NULL has failed."""

    name: str
    predicate: str
    otherwise: Otherwise


def expect(name: str, predicate: str, otherwise: Otherwise = "quarantine") -> Expectation:
    """Gives a rule for a table's ``expectations``.

    Args:
        name: What the rule is called in checks and in the quarantine.
        predicate: SQL over the query's columns, true of a good row. A column whose name starts
            with ``_check_`` is there for predicates only and is not written.
        otherwise: ``warn`` keeps and counts the row, ``drop`` counts it and lets it go,
            ``quarantine`` moves it, ``fail`` stops the run before anything is written.

    Raises:
        DeclarationError: The rule has no name, an unknown outcome, or does not parse.
    """
    if not name.isidentifier():
        raise DeclarationError(f"an expectation needs a name made of letters, digits and _, not {name!r}")
    if otherwise not in OUTCOMES:
        raise DeclarationError(f"expectation {name}: {otherwise!r} is not one of {', '.join(OUTCOMES)}")
    try:
        sqlglot.parse_one(f"SELECT 1 WHERE {predicate}", dialect="spark")
    except SqlglotError as error:
        raise DeclarationError(f"expectation {name}: {predicate!r} does not parse: {error}") from error
    return Expectation(name, predicate, otherwise)
