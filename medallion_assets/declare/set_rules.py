"""Rules of a table as a whole: keys, references, and how a batch compares with those before it.

Judged from the log and the columns concerned, after a run; one that says ``fail`` keeps the chain from
going on. Keys and references that say ``drop`` or ``quarantine`` are judged row by row instead, with the
other expectations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from medallion_assets.declare.errors import DeclarationError
from medallion_assets.declare.expectations import OUTCOMES, OnViolation

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


def unique(name: str, columns: str | Sequence[str], on_violation: OnViolation = "warn") -> SetRule:
    """Say that each combination of the columns stands once, NULL among them.

    ``warn`` and ``fail`` take nothing out. ``quarantine`` and ``drop`` refuse the rows that come after the
    first good one; ``unique_by`` counts those as duplicates instead, and finds their keys again.
    """
    return _rule(SetRule(name, "unique", on_violation, _names(columns)))


def references(name: str, column: str, other: Any, on_violation: OnViolation = "warn") -> SetRule:
    """Say that each value of the column stands in the same column of another table; NULL has failed.

    ``quarantine`` and ``drop`` refuse a row by the version of the other table its batch meets.
    """
    return _rule(SetRule(name, "references", on_violation, (column,), other))


def row_count(name: str, drift: float, on_violation: OnViolation = "warn") -> SetRule:
    """Say that a batch has about as many rows as those before: ``drift`` (0.5: half) off at most."""
    return _rule(SetRule(name, "row_count", on_violation, (), None, drift))


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
