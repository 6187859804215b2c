"""Triggers: when a table loads new rows, and in how many micro-batches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from medallion_assets.declare.errors import DeclarationError, UnknownTable, nearest
from medallion_assets.declare.table import Table
from medallion_assets.delta.stream import Trigger
from medallion_assets.sources.errors import seconds_of

NO_CONTINUOUS = (
    "Spark's continuous trigger is not offered: it cannot write Delta tables, nor batches once; "
    "say an interval, as 10s, and run `medallion stream`"
)


@dataclass(frozen=True)
class Timing:
    """A trigger that was read.

    Attributes:
        batches: ``availableNow``, or ``once`` for all that is new in one micro-batch.
        every_seconds: The processing time between two micro-batches of a stream; None for the stream's own.
            A run takes such a table once, as it takes every other.
    """

    batches: Trigger = "availableNow"
    every_seconds: float | None = None


def timing_of(text: str) -> Timing:
    """Parse a trigger: ``availableNow``, ``once``, or a processing time as ``10 seconds``.

    Raises:
        DeclarationError: It is none of these.
    """
    if text in ("", "availableNow"):
        return Timing()
    if text == "once":
        return Timing("once")
    if text.startswith("continuous"):
        raise DeclarationError(NO_CONTINUOUS)
    try:
        return Timing(every_seconds=seconds_of(text))
    except ValueError as error:
        raise DeclarationError(
            f"trigger {text!r} is neither availableNow nor once, nor a processing time as 10s"
        ) from error


def timings_of(tables: Iterable[Table], asked: Iterable[str] = ()) -> Mapping[str, Timing]:
    """Return each table's trigger by its key: the one asked for it, or for all tables, or the declared one.

    Args:
        tables: The tables.
        asked: Triggers; ``TABLE=TRIGGER`` is for that table alone and wins.

    Raises:
        DeclarationError: A trigger cannot be read.
        UnknownTable: A trigger is for a table that is not among these.
    """
    timings = {table.key: timing_of(table.trigger) for table in tables}
    pairs = [text.rpartition("=") for text in asked]
    timings |= dict.fromkeys(timings, timing) if (timing := _for_all(pairs)) else {}
    for name, _, text in pairs:
        key = name.replace(".", "/")
        if key and key not in timings:
            raise UnknownTable(f"no table of these is called {name!r}{nearest(key, timings)}")
        if key:
            timings[key] = timing_of(text)
    return timings


def _for_all(pairs: Iterable[tuple[str, str, str]]) -> Timing | None:
    found = [timing_of(text) for name, _, text in pairs if not name]
    return found[-1] if found else None
