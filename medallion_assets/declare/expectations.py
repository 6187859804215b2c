"""Rules of good rows and of tables: SQL predicates, keys, references, and what follows a violation.

Judged from the log and the columns concerned, after a run; one that says ``fail`` keeps the chain from
going on. Keys and references that say ``drop`` or ``quarantine`` are judged row by row instead, with the
other expectations.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlglot
from sqlglot.errors import SqlglotError

from medallion_assets.declare.errors import DeclarationError, known_options
from medallion_assets.delta.names import among
from medallion_assets.sources.quarantine import RULE

OnViolation = Literal["warn", "drop", "quarantine", "fail"]
OUTCOMES = ("warn", "drop", "quarantine", "fail")


@dataclass(frozen=True)
class Expectation:
    """A named predicate that is true of a good row; NULL has failed.

    ``reason`` is the class a row is quarantined under that breaks it.
    """

    name: str
    predicate: str
    on_violation: OnViolation
    at_most: float | None = None
    in_percent: bool = False
    reason: str = RULE

    def allows(self, broken: int, rows: int) -> bool:
        """Return true where so many rows of a batch may break it."""
        if self.at_most is None:
            return True
        return broken <= (self.at_most * rows / 100 if self.in_percent else self.at_most)


@known_options
def accepted_values(
    name: str, column: str, values: Iterable[str], on_violation: OnViolation = "quarantine"
) -> Expectation:
    """Return the rule that a column holds one of these texts; NULL has failed."""
    return expect(name, among(f"`{column}`", values), on_violation)


@known_options
def expect(
    name: str, predicate: str, on_violation: OnViolation = "quarantine", at_most: int | str | None = None
) -> Expectation:
    """Return a rule for a table's ``expectations``.

    Args:
        name: What the rule is called in checks and in the quarantine.
        predicate: SQL over the query's columns, true of a good row. A column whose name starts
            with ``_check_`` is there for predicates only and is not written.
        on_violation: ``warn`` keeps and counts the row, ``drop`` counts it and lets it go,
            ``quarantine`` moves it, ``fail`` stops the run before anything is written.
        at_most: Rows of a batch that may break it, as a number or ``"5%"``; where more do, the run
            stops before anything of the batch is written. The batch is judged before it is published.

    Raises:
        DeclarationError: The rule has no name, an unknown outcome, or does not parse.
    """
    if not name.isidentifier():
        raise DeclarationError(f"an expectation needs a name made of letters, digits and _, not {name!r}")
    if on_violation not in OUTCOMES:
        raise DeclarationError(f"expectation {name}: {on_violation!r} is not one of {', '.join(OUTCOMES)}")
    try:
        sqlglot.parse_one(f"SELECT 1 WHERE {predicate}", dialect="spark")
    except SqlglotError as error:
        raise DeclarationError(f"expectation {name}: {predicate!r} does not parse: {error}") from error
    return Expectation(name, predicate, on_violation, *_bound(name, at_most))


def _bound(name: str, at_most: int | str | None) -> tuple[float | None, bool]:
    if at_most is None:
        return None, False
    text = str(at_most).strip()
    try:
        bound = float(text.removesuffix("%"))
    except ValueError:
        bound = -1
    if not bound >= 0 or (text.endswith("%") and bound > 100):
        raise DeclarationError(f"expectation {name}: at_most {at_most!r} is neither rows nor a percentage")
    return bound, text.endswith("%")


Kind = Literal["unique", "references", "row_count", "null_rate"]
BY_ROW = ("drop", "quarantine")


@dataclass(frozen=True)
class SetRule:
    """A named rule of a table as a whole; see the functions that make one."""

    name: str
    kind: Kind
    on_violation: OnViolation
    columns: tuple[str, ...] = ()
    other: Any = None
    drift: float = 0.0

    @property
    def judges_rows(self) -> bool:
        """Return true where it refuses single rows."""
        return self.on_violation in BY_ROW


@known_options
def unique(name: str, columns: str | Sequence[str], on_violation: OnViolation = "warn") -> SetRule:
    """Declare that each combination of the columns occurs once; NULL counts as a value.

    ``warn`` and ``fail`` remove no rows. ``quarantine`` and ``drop`` remove the rows after the first good
    one of a combination; ``unique_by`` counts such rows as duplicates instead, over all batches.
    """
    return _rule(SetRule(name, "unique", on_violation, _names(columns)))


@known_options
def references(name: str, column: str, other: Any, on_violation: OnViolation = "warn") -> SetRule:
    """Declare that each value of the column is in the same column of another table; NULL breaks the rule.

    ``quarantine`` and ``drop`` check a row against the version of the other table that its batch reads.
    """
    return _rule(SetRule(name, "references", on_violation, (column,), other))


@known_options
def row_count(name: str, drift: float, on_violation: OnViolation = "warn") -> SetRule:
    """Say that a batch has about as many rows as those before: ``drift`` (0.5: half) off at most."""
    return _rule(SetRule(name, "row_count", on_violation, (), None, drift))


@known_options
def null_rate(name: str, column: str, drift: float, on_violation: OnViolation = "warn") -> SetRule:
    """Say that a column's share of NULL in the last commit is at most ``drift`` above that of the table."""
    return _rule(SetRule(name, "null_rate", on_violation, (column,), None, drift))


def _rule(rule: SetRule) -> SetRule:
    words = OUTCOMES if rule.kind in ("unique", "references") else ("warn", "fail")
    if not rule.name.isidentifier() or rule.on_violation not in words or rule.drift < 0:
        raise DeclarationError(
            f"rule {rule.name!r}: it needs a name of letters, digits and _, a drift of 0 or more, and as "
            f"on_violation one of {', '.join(words)}: a table as a whole cannot be quarantined"
        )
    return rule


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)
