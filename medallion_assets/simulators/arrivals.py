"""Lands simulated files the way a careful sender does: under a hidden name, then renamed; objects whole."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random

from medallion_assets.simulators import commerce, faults, health, school
from medallion_assets.storage import ObjectPath


@dataclass(frozen=True)
class Simulator:
    """A pipeline's arrivals.

    Attributes:
        source: The folder its numbered files land in.
        file: Gives the text of file number n (from 1) as a random generator has it.
        name: Gives that file's name.
        references: Files that land once, before the first: path below the landing zone, and text.
        whole: How many files ``--all`` lands.
        beside: Files that land with file n, and whether faults are asked for.
        bad: Further lines with faults.
    """

    source: str
    file: Callable[[int, Random], list[str]]
    name: Callable[[int], str]
    references: Callable[[Random], dict[str, str]]
    whole: int
    beside: Callable[[int, Random, bool], dict[str, str]] = lambda number, random, with_faults: {}
    bad: Callable[[], list[str]] = list


SIMULATORS = {
    "school": Simulator(
        "enrollments",
        school.enrollments,
        school.file_name,
        school.references,
        school.FILES,
        school.later_courses,
    ),
    "commerce": Simulator(
        "orders",
        commerce.orders,
        commerce.file_name,
        commerce.references,
        commerce.FILES,
        commerce.day,
        commerce.bad_orders,
    ),
    "health": Simulator("recordings", health.recordings, health.file_name, health.references, health.MONTHS),
}


def land(
    pipeline: str, landing: Path, files: int | None = 1, seed: int = 0, with_faults: bool = False
) -> list[Path]:
    """Lands the next files of a pipeline; the same seed gives the same files, one after the other.

    Args:
        pipeline: ``school``, ``commerce`` or ``health``.
        landing: The folder that holds every pipeline's landing zones.
        files: How many more; None for all that are left of the set.
        seed: What the files are made from.
        with_faults: Broken, mistyped, unknown and doubled records among the good ones.

    Returns:
        The paths landed, reference files among them.
    """
    simulator, zone = SIMULATORS[pipeline], landing / pipeline
    landed = [
        _drop(zone / p, text)
        for p, text in simulator.references(Random(seed)).items()
        if not (zone / p).exists()
    ]
    folder = zone / simulator.source
    first = _landed(simulator, zone) + 1
    last = max(first - 1, simulator.whole) if files is None else first + files - 1
    for number in range(first, last + 1):
        random = Random(f"{seed}/{pipeline}/{number}")
        lines = simulator.file(number, random)
        lines = [*faults.planted(lines, random), *simulator.bad()] if with_faults else lines
        others = simulator.beside(number, random, with_faults)
        landed += [_drop(zone / p, text) for p, text in others.items()]
        landed.append(_drop(folder / simulator.name(number), "".join(f"{line}\n" for line in lines)))
    _remember(zone, landed)
    return landed


SIMULATED = ".simulated"
"""The file of a pipeline's landing zones that lists what was put there: ``<SHA-256> <path below them>``."""


def _remember(zone: Path, landed: list[Path]) -> None:
    file = zone / SIMULATED
    known = file.read_text("utf-8") if file.exists() else ""
    sums = (f"{sha256(path.read_bytes()).hexdigest()} {path.relative_to(zone).as_posix()}" for path in landed)
    _drop(file, known + "".join(f"{line}\n" for line in sums))


def _drop(target: Path, text: str) -> Path:
    if isinstance(target, ObjectPath):
        target.write_text(text)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(target)
    return target


def land_in_turn(
    pipeline: str, landing: Path, every_seconds: float, seed: int = 0, with_faults: bool = False
) -> Iterator[list[Path]]:
    """Lands file after file to the end of the set with a wait between two, unless the caller stops before."""
    simulator = SIMULATORS[pipeline]
    for number in range(_landed(simulator, landing / pipeline), simulator.whole):
        yield land(pipeline, landing, 1, seed, with_faults)
        if number + 1 < simulator.whole:
            time.sleep(every_seconds)


def _landed(simulator: Simulator, zone: Path) -> int:
    """Return how many of the numbered files have landed."""
    return sum(1 for _ in (zone / simulator.source).glob("*.json"))
