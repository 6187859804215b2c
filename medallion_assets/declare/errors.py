"""Errors of a declaration or a refresh; each message names the table and what to do."""

import inspect
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class DeclarationError(ValueError):
    """A table was declared in a way that cannot work; raised when the declaration loads."""


class QueryWarning(UserWarning):
    """A declared query does something to records that a person may not expect; file and line are its own."""


def refuse_unknown(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise a ``DeclarationError`` for the first keyword that is not known, with the nearest that is."""
    names = sorted(known)
    for name in given:
        if name not in names:
            raise DeclarationError(
                f"{what} has no option {name!r}{nearest(name, names)}; there are: {', '.join(names)}"
            )


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` with the nearest known name, or an empty text where none is near."""
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def known_options(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function; an unknown keyword is refused by ``refuse_unknown`` instead of a ``TypeError``."""
    known = list(inspect.signature(function).parameters)

    @wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        refuse_unknown(f"{function.__name__}(...)", options, known)
        return function(*args, **options)

    return checked


class ExpectationFailed(RuntimeError):
    """An expectation that says ``fail`` was broken; the batch was not written."""


class RefreshFailed(RuntimeError):
    """A micro-batch could not be written; it was not committed, and the next run takes it again."""


class QueryRefused(RefreshFailed):
    """A query uses an operation that its stream does not support; the table's first run did not start."""


class GateClosed(RuntimeError):
    """A staged batch failed a blocking check and was not published; the table is unchanged."""


class CheckpointMismatch(RuntimeError):
    """A checkpoint does not match its table; a run would lose or duplicate rows."""


class CheckpointDamaged(CheckpointMismatch):
    """A checkpoint's files cannot be read."""

    def __init__(self, table: str, cause: str) -> None:
        """Say what was not lost, and the verb that mends it."""
        super().__init__(
            f"{table}: its checkpoint is damaged: {cause}. Nothing was written and nothing is lost: the "
            f"table's own commits hold its position. Run `medallion reset_checkpoint {table}`, then run "
            "again."
        )


class StateMismatch(RuntimeError):
    """A query was changed so that it cannot use the state in its checkpoint."""


class ReplayRefused(ValueError):
    """A replay's request is invalid; no row was moved."""


class UnknownTable(ValueError):
    """No pipeline or table of this name is declared."""


class SchemaRefused(RuntimeError):
    """A query returns other columns than its table declares."""

    def __init__(self, table: str, differ: list[str]) -> None:
        """Say which columns differ, and what to do."""
        super().__init__(
            f"{table}: the query's columns are not those its schema declares; they differ in "
            f"{', '.join(differ)}. Nothing was written and nothing is lost: correct the query or the schema."
        )


class ColumnsChanged(SchemaRefused):
    """A query returns other columns than its table has: new rows would hold NULL or cast values."""

    def __init__(self, table: str, lost: list[str], retyped: list[str], is_bronze: bool) -> None:
        """Say which columns, what did not happen, and what to do."""
        words = [f"no longer gives {', '.join(lost)}, where new rows would hold NULL"] if lost else []
        words += [f"gives another type: {', '.join(retyped)}"] if retyped else []
        way = f"run `medallion full_refresh {table}`, which rebuilds the table with today's columns"
        way = "rename, cast and leave out columns in silver" if is_bronze else way
        RuntimeError.__init__(
            self,
            f"{table}: its query {' and '.join(words)}. Nothing was written and nothing is lost. Give the "
            f"columns as before (`lit(None)` where one is to stay empty), or {way}.",
        )


class SourceRowLost(SchemaRefused):
    """A query with ``rows_out="many"`` drops the column that identifies the upstream row."""

    def __init__(self, table: str, column: str) -> None:
        """Say what the query has to do."""
        RuntimeError.__init__(
            self,
            f"{table}: it is declared with rows_out='many', and its query drops the column {column}, which "
            "says which upstream row each row came from. Nothing was written and nothing is lost: add "
            f"{column} to what the query selects (it is not written to the table).",
        )


class RepeatedKeys(RuntimeError):
    """A static input has several rows for a key that is declared unique: a join would multiply rows."""

    def __init__(
        self, table: str, static: str, keys: tuple[str, ...], found: list[tuple[object, ...]]
    ) -> None:
        """Say which keys, what did not happen, and what to do."""
        named = "; ".join(str(key) for key in found)
        super().__init__(
            f"{table}: {static} has more than one row for {', '.join(keys)}: {named}. Nothing was written "
            f"and nothing is lost. Mend {static}, or say repeated='keep_one': the row that landed last."
        )
