"""What each kind of table should hold, computed from its landing files in plain Python: no Spark, no Delta.

An event is ``(id, day of January 2024, city)``; events come in the order in which they arrived.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date

Event = tuple[int, int, str]
NOWHERE = "nowhere"
EPOCH_DAY = (date(2024, 1, 1) - date(1970, 1, 1)).days - 1
"""Windows begin at multiples of their length since 1970."""


def known(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event[2] != NOWHERE]


def first_of_each(events: Iterable[Event]) -> list[Event]:
    found: dict[int, Event] = {}
    for event in events:
        found.setdefault(event[0], event)
    return list(found.values())


def none_within(days: int, events: Iterable[Event]) -> list[Event]:
    """Those that no kept one of their id comes so many days before, or fewer."""
    kept: list[Event] = []
    for event in sorted(events, key=lambda e: e[1]):
        if not any(k[0] == event[0] and k[1] + days >= event[1] for k in kept):
            kept.append(event)
    return kept


def newest_of_each(events: Iterable[Event]) -> list[Event]:
    return list({event[0]: event for event in sorted(events, key=lambda e: e[1])}.values())


def states(events: list[Event], snapshots: bool = False) -> Iterator[tuple[int, str, int, int | None]]:
    """Each state of each id: city, from when, until when."""
    times = sorted({day for _, day, _ in events})
    for number in {i for i, _, _ in events}:
        told = {day: city for i, day, city in events if i == number}
        city, start = None, 0
        for day in times:
            now = told.get(day) if snapshots or day in told else city
            if now != city:
                if city is not None:
                    yield number, city, start, day
                city, start = now, day
        if city is not None:
            yield number, city, start, None


def in_known_cities(events: list[Event], cities: list[Event]) -> list[tuple[int, str, int]]:
    numbers = {city: number for number, _, city in reversed(cities)}
    return [(i, city, numbers[city]) for i, _, city in first_of_each(e for e in events if e[2] in numbers)]


@dataclass
class JoinedWhenTaken:
    """Rows with their city's number as it was when they were taken; asked after each landing.

    A row that was recomputed, since a file of its id came again changed, has the number of that time.
    Where rows of unknown cities are not kept, the first one of an id that is known stands.
    """

    keeps: bool
    seen: list[Event] = field(default_factory=list)
    rows: dict[int, tuple[int, str, int | None]] = field(default_factory=dict)

    def __call__(self, events: list[Event], cities: list[Event]) -> list[tuple[int, str, int | None]]:
        numbers = {city: number for number, _, city in cities}
        went = [event for event in self.seen if event not in events]
        came = [event for event in events if event not in self.seen]
        for number in {i for i, _, _ in (*went, *came)}:
            if went:
                self.rows.pop(number, None)
            for i, _, city in events if went else came:
                if i == number and i not in self.rows and (self.scd or city in numbers):
                    self.rows[i] = (i, city, numbers.get(city))
        self.seen = list(events)
        return list(self.rows.values())


def by_city(events: list[Event]) -> list[tuple[str, int, float]]:
    ids = defaultdict(list)
    for number, _, city in events:
        ids[city].append(number)
    return [(city, len(found), sum(found) / len(found)) for city, found in ids.items()]


def by_window(events: list[Event], slides: int) -> list[tuple[int, str, int]]:
    """Windows of two days: the day each begins, its city, and how many came."""
    found = Counter(
        (start, city)
        for _, day, city in events
        for start in range(day - 1, day + 1)
        if (EPOCH_DAY + start) % slides == 0
    )
    return [(start, city, n) for (start, city), n in found.items()]


def by_session(events: list[Event]) -> list[tuple[int, int, str, int]]:
    """Sessions of a city that end two days after its last event: first and last day, and how many.

    An event at the very end of a session still belongs to it, as Spark has it.
    """
    found: list[tuple[int, int, str, int]] = []
    for _, day, city in sorted(events, key=lambda e: (e[2], e[1])):
        if found and found[-1][2] == city and day <= found[-1][1] + 2:
            found[-1] = (found[-1][0], day, city, found[-1][3] + 1)
        else:
            found.append((day, day, city, 1))
    return found


def watermark(events: list[Event]) -> int:
    """A day behind the newest event."""
    return max(day for _, day, _ in events) - 1
