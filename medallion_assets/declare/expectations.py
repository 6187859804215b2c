"""Rules of good rows: SQL predicates, and what becomes of a row that breaks one."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import sqlglot
from sqlglot.errors import SqlglotError

from medallion_assets.declare.errors import DeclarationError
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


def accepted_values(
    name: str, column: str, values: Iterable[str], on_violation: OnViolation = "quarantine"
) -> Expectation:
    """Return the rule that a column holds one of these texts; NULL has failed."""
    return expect(name, among(f"`{column}`", values), on_violation)


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
