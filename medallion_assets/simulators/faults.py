"""Faults planted among good JSON lines, each of a kind that bare Spark loses or lets through."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

Record = dict[str, Any]
NUMBER_FIELDS = ("quantity", "heartrate")
OWNER_FIELDS = ("student_id", "mrn", "customer_id")


def planted(lines: list[str], random: Random) -> list[str]:
    """Return the lines with one of each fault put in at random places; the good ones all stay."""
    faulty = [fault(random.choice(lines)) for fault in FAULTS]
    for line in faulty:
        lines.insert(random.randrange(len(lines) + 1), line)
    return lines


def _cut_off(line: str) -> str:
    return line[: len(line) // 2]


def _two_on_a_line(line: str) -> str:
    return f"{line} {line}"


def _garbage_after(line: str) -> str:
    return f"{line}#@!"


def _mistyped(line: str) -> str:
    return _with(line, NUMBER_FIELDS, "many")


def _not_above_zero(line: str) -> str:
    return _with(line, NUMBER_FIELDS, 0)


def _missing_number(line: str) -> str:
    return _with(line, NUMBER_FIELDS, None)


def _unknown_owner(line: str) -> str:
    record = json.loads(line)
    name = next(f for f in OWNER_FIELDS if f in record)
    return json.dumps(record | {name: 99_999_999 if name == "mrn" else "S99999"} | _new_id(record, "U"))


def _repeated(line: str) -> str:
    return line


def _array(line: str) -> str:
    return f"[{line}]"


def _with(line: str, fields: tuple[str, ...], value: object) -> str:
    record: Record = json.loads(line)
    name = next(f for f in fields if f in record)
    return json.dumps(record | {name: value} | _new_id(record, str(value)))


def _new_id(record: Record, mark: str) -> Record:
    return {"enroll_id": f"{record['enroll_id']}-{mark}"} if "enroll_id" in record else {}


FAULTS: tuple[Callable[[str], str], ...] = (
    _cut_off, _two_on_a_line, _garbage_after, _mistyped, _not_above_zero, _missing_number,
    _unknown_owner, _repeated, _array,
)  # fmt: skip
