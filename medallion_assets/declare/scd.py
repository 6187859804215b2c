"""Slowly changing dimensions: the declaration of a change feed and of the history to keep."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import sqlglot
from sqlglot.errors import SqlglotError

from medallion_assets.declare.errors import DeclarationError, known_options

START_AT, END_AT = "__START_AT", "__END_AT"


@dataclass(frozen=True)
class Changes:
    """A feed of changes and the history kept of it; see ``keep_changes``."""

    keys: tuple[str, ...]
    sequence_by: str
    type: Literal[1, 2] = 1
    apply_as_deletes: str = ""
    apply_as_truncates: str = ""
    except_columns: tuple[str, ...] = ()
    track_history_columns: tuple[str, ...] = ()
    track_history_except: tuple[str, ...] = ()
    from_snapshots: bool = False


@known_options
def keep_changes(
    keys: str | Sequence[str],
    sequence_by: str,
    *,
    type: Literal[1, 2] = 1,  # noqa: A002 - the field's own word for it
    apply_as_deletes: str = "",
    apply_as_truncates: str = "",
    except_columns: Sequence[str] = (),
    track_history_columns: Sequence[str] = (),
    track_history_except: Sequence[str] = (),
    from_snapshots: bool = False,
) -> Changes:
    """Return a table's ``scd``: the state of each key, or all of its states, from a feed of changes.

    Events may come in any order, late and more than once: the same events give the same table.

    Args:
        keys: The columns that name a row.
        sequence_by: The column that orders the events of a key; NULL goes to quarantine. Two different
            events of one key with the same value cannot be ordered: both go to quarantine.
        type: 1 keeps the newest state, 2 every state with ``__START_AT`` and ``__END_AT`` (of the type
            of ``sequence_by``; NULL where it still holds).
        apply_as_deletes: SQL over the query's columns, true of an event that says its key is gone.
        apply_as_truncates: SQL true of an event that says every key is gone; type 1 only.
        except_columns: Columns of the feed that are not kept.
        track_history_columns: For type 2, the only columns whose change begins a new state; others
            are changed in place.
        track_history_except: The same, said by the columns that do not.
        from_snapshots: The rows of one ``sequence_by`` value are the whole table at that time: a key
            that is not in the next one is gone from then on.

    Raises:
        DeclarationError: What is said cannot be kept together.
    """
    named = (keys,) if isinstance(keys, str) else tuple(keys)
    kept = Changes(named, sequence_by, type, apply_as_deletes, apply_as_truncates, tuple(except_columns),
                   tuple(track_history_columns), tuple(track_history_except), from_snapshots)  # fmt: skip
    for problem in _problems(kept):
        raise DeclarationError(f"keep_changes({', '.join(named)}): {problem}")
    return kept


def _problems(kept: Changes) -> list[str]:
    found = [] if kept.keys and kept.sequence_by else ["needs keys and sequence_by"]
    found += [] if kept.type in (1, 2) else [f"type {kept.type!r} is neither 1 nor 2"]
    if kept.type == 1 and (kept.track_history_columns or kept.track_history_except):
        found.append("track_history is for type 2: type 1 keeps no history")
    if kept.track_history_columns and kept.track_history_except:
        found.append("say track_history_columns or track_history_except, not both")
    if kept.type == 2 and kept.apply_as_truncates:
        found.append("apply_as_truncates is for type 1: a truncation has no states to close")
    if kept.from_snapshots and (kept.apply_as_deletes or kept.apply_as_truncates):
        found.append("snapshots say by absence what is gone: no deletes or truncates beside them")
    return found + [p for rule in (kept.apply_as_deletes, kept.apply_as_truncates) if (p := _unread(rule))]


def _unread(rule: str) -> str:
    try:
        sqlglot.parse_one(f"SELECT 1 WHERE {rule or 'true'}", dialect="spark")
    except SqlglotError as error:
        return f"{rule!r} does not parse: {error}"
    return ""
