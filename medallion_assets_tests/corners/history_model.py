"""A shop whose tables any history of verbs must leave as plain Python says: steps, model and driver.

``steps_of(seed)`` draws a history, ``Shop`` does it to real tables and to ``Model`` at once, and
``Shop.check`` compares the two. Only the public surface is used: declarations, ``refresh``, verbs, tables
read by their paths, and files deleted or put back under ``<lake>/shop/_state``.
"""

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, expect, static, stream
from medallion_assets.delta import log
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.pytest_plugin import Lakehouse
from medallion_assets.quality.conservation import balance
from medallion_assets.quarantine.choice import QuarantineFilter

MODES = ("replace", "append", "ignore")
GOLD = ("incremental", "complete")
CITIES = ("Quito", "Lima", "Oslo", "Cairo")
FIX = "total = abs(total) + 100"
OLDEST = 1_700_000_000
"""File times are set, one second apart: two landings within the clock's grain are not what is tried here."""


class Order(NamedTuple):
    """A record: ``serial`` is never given twice, ``id`` often."""

    serial: int
    id: int
    city: str
    total: int


class Step(NamedTuple):
    """One thing done; ``a`` and ``b`` choose among what there is then."""

    do: str
    a: int
    b: int


WEIGHTS = {
    "land": 6, "overwrite": 5, "dimension": 4, "run": 8, "run_one": 4, "crash": 6, "fix": 4, "retry": 2,
    "discard": 2, "reprocess": 2, "full_refresh": 3, "undo": 2, "reset_checkpoint": 3,
}  # fmt: skip
DISTURBANCES = {"lose": 4, "keep_copy": 3, "age": 3, "move": 2, "empty": 3}


def steps_of(seed: int, length: int, disturbed: bool) -> list[Step]:
    """Return the same history for the same seed; ``disturbed`` adds lost and aged state and moved lakes."""
    drawn = random.Random(seed)
    kinds = WEIGHTS | (DISTURBANCES if disturbed else {})
    chosen = drawn.choices(list(kinds), list(kinds.values()), k=length)
    return [Step("land", 0, 0), Step("dimension", 7, 0), Step("run", 0, 0)] + [
        Step(kind, drawn.randrange(1000), drawn.randrange(1000)) for kind in chosen
    ]


def declared(mode: str, gold: Any) -> dict[str, Any]:
    """Return the shop's tables by name, upstream first."""
    shop = Pipeline("shop")
    schema = "serial INT, id INT, city STRING, total INT"

    @shop.bronze()
    def orders(files=shop.landing("orders", format="json", schema=schema, allow_overwrites=mode)):  # noqa: B008
        """One row per order, as it landed."""
        return files

    numbers = shop.landing(
        "cities", format="json", schema="city STRING, number INT", allow_overwrites="replace"
    )

    @shop.bronze()
    def cities(files=numbers):
        """One row per city, as it landed."""
        return files

    @shop.silver(unique_by="id", expectations=[expect("above_zero", "total > 0")])
    def sales(
        orders=stream(orders),
        cities=static(cities, on="city", unmatched="retry", follow=True, unique_by="city"),
    ):
        """One row per sale, with its city's number."""
        named = orders.join(cities.select("city", "number"), "city", "left")
        return named.select("serial", "id", "city", "total", "number", "_batch_id")

    @shop.gold(output_mode=gold, row_count_column="n")
    def totals(sales=stream(sales)):
        """One row per city."""
        return sales.groupBy("city").agg(F.sum("total").alias("total"), F.count("*").alias("n"))

    return {table.name: table for table in (orders, cities, sales, totals)}


@dataclass
class Model:
    """What the files and the verbs make of the shop.

    Attributes:
        mode: ``allow_overwrites`` of the orders.
        files: Orders by file name, as they are in the landing zone.
        unread: Files that landed or changed since bronze read them.
        loaded: What bronze read, in its order.
        numbers, known, met: Cities as they landed, as bronze has them, as silver has met them.
        taken: The orders silver has taken.
        fixed, discarded: How many copies of an order were mended, or given up; by serial.
    """

    mode: str
    files: dict[str, list[Order]] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    loaded: list[tuple[str, list[Order]]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    met: dict[str, int] = field(default_factory=dict)
    taken: Counter[Order] = field(default_factory=Counter)
    fixed: Counter[int] = field(default_factory=Counter)
    discarded: Counter[int] = field(default_factory=Counter)

    def read_orders(self) -> None:
        """Bronze takes what is new."""
        for name in sorted(self.unread):
            before = [read for read in self.loaded if read[0] == name]
            if not before or self.mode == "append":
                self.loaded.append((name, self.files[name]))
            elif self.mode == "replace":
                self.read_again(name)
        self.unread.clear()

    def read_again(self, name: str) -> None:
        """A file's rows make way for those it holds now."""
        self.loaded = [read for read in self.loaded if read[0] != name] + [(name, self.files[name])]

    def take(self) -> None:
        """Silver takes what bronze has, and meets the cities bronze has."""
        self.taken, self.met = Counter(o for _, orders in self.loaded for o in orders), dict(self.known)
        bad = Counter({o.serial: n for o, n in self.taken.items()})
        self.discarded = self.discarded & bad

    def parts(self) -> tuple[list[Order], Counter[int]]:
        """Return the good orders among those taken, mended ones as they were mended, and how many are not."""
        good: list[Order] = []
        held: Counter[int] = Counter()
        for order, copies in self.taken.items():
            mended = copies if order.total > 0 else min(copies, self.fixed[order.serial])
            total = order.total if order.total > 0 else abs(order.total) + 100
            if order.city not in self.met:
                mended = 0
            good += [order._replace(total=total)] * mended
            if copies > mended:
                held[order.serial] = copies - mended
        return good, held


class Shop:
    """Real tables and their model, with the same done to both."""

    def __init__(self, lakehouse: Lakehouse, spark: Any, seed: int) -> None:
        """Take an empty lakehouse."""
        self.house, self.spark, self.model = lakehouse, spark, Model(MODES[seed % len(MODES)])
        self.tables = declared(self.model.mode, GOLD[seed // len(MODES) % len(GOLD)])
        self.seconds, self.serial = OLDEST, 0
        self.undoable: dict[str, tuple[Counter[int], Counter[int]]] = {}
        self.entries: dict[int, dict[str, Any]] = {}
        self.copies: set[str] = set()
        self.moves = 0

    def do(self, step: Step) -> None:
        """Do one step to the tables and to the model."""
        getattr(self, step.do)(step.a, step.b)

    def verb(self, verb: str, name: str, **asked: Any) -> Any:
        """Do a verb of the project to a table."""
        return VERBS[verb](self.tables[name], self.house.lake, self.spark, VerbRequest(**asked))

    def land(self, a: int, b: int) -> None:
        """One to three new files."""
        for _ in range(a % 3 + 1):
            self._write(f"{len(self.model.files)}.json", self._orders(b))

    def overwrite(self, a: int, b: int) -> None:
        """A file comes again: some of its orders stay, some are new."""
        name = sorted(self.model.files)[a % len(self.model.files)]
        old = self.model.files[name]
        kept = [order for place, order in enumerate(old) if (b >> place) % 2]
        self._write(name, kept + self._orders(b))

    def dimension(self, a: int, b: int) -> None:
        """Other cities are known, or by other numbers."""
        self.model.numbers = {c: a * 10 + n for n, c in enumerate(CITIES) if (a >> n) % 2} or {"Quito": b}
        records = [{"city": city, "number": number} for city, number in self.model.numbers.items()]
        self._file("cities", "cities.json", records)

    def run(self, a: int = 0, b: int = 0) -> None:
        """Everything new goes through every table, and all is as the model has it."""
        for name in self.tables:
            self._run(name)
        self.check()

    def run_one(self, a: int, b: int) -> None:
        """One table takes what is new; those after it stay behind."""
        self._run(list(self.tables)[a % len(self.tables)])

    def crash(self, a: int, b: int) -> None:
        """A table dies at a commit, if it comes to so many; it is run again at once, or later."""
        name = list(self.tables)[a % len(self.tables)]
        for upstream in list(self.tables)[: a % len(self.tables)]:
            self._run(upstream)
        before = self._version(name)
        try:
            with self.house.crash_at(b % 3 + 1, ("before", "after")[a // 5 % 2]):
                self.house.run(self.tables[name])
        except AssertionError as error:
            if "nothing died" not in str(error):
                raise
            self._modelled(name)
        if name in ("orders", "cities") and self._version(name) != before:
            self._modelled(name)
        if b // 3 % 3:
            self._run(name)

    def fix(self, a: int, b: int) -> None:
        """Every order that is not above zero is mended."""
        self._run("sales")
        choice = QuarantineFilter(rules=("above_zero",))
        self.verb("replay", "sales", choice=choice, fix=FIX)
        _, held = self.model.parts()
        by_serial = {order.serial: order for order in self.model.taken}
        for serial, copies in held.items():
            if by_serial[serial].total <= 0 and by_serial[serial].city in self.model.met:
                self.model.fixed[serial] += copies - self.model.discarded[serial]
                # A further copy of the order, refused later, is an entry of its own.
                self.entries.pop(serial, None)

    def retry(self, a: int, b: int) -> None:
        """What is held is tried again as it is."""
        self._run("sales")
        self.verb("replay", "sales")

    def discard(self, a: int, b: int) -> None:
        """One order that breaks the rule is given up."""
        self._run("sales")
        found = [e for e in self._held() if e["status"] == "open" and e["total"] <= 0]
        if found:
            chosen = sorted(found, key=lambda e: e["entry_id"])[a % len(found)]
            self.verb("discard", "sales", choice=QuarantineFilter(ids=(chosen["entry_id"],)), why="a test")
            self.model.discarded[chosen["serial"]] += 1
            # A mended order whose city went is held again, and given up as it is; one whose city was never
            # there with the fix was not mended.
            self.model.fixed[chosen["serial"]] -= chosen["replayed_at"] is not None

    def reprocess(self, a: int, b: int) -> None:
        """Files that were read are read again, replacing what they gave."""
        if self.model.mode == "append":
            return
        names = sorted({name for name, _ in self.model.loaded})
        if not names:
            return
        name = names[a % len(names)]
        done = self.verb("reprocess", "orders", files=(f"/{name}",))
        assert done.well, done.does
        self.model.read_orders()
        self.model.read_again(name)

    def full_refresh(self, a: int, b: int) -> None:
        """A table is made anew from all of upstream."""
        name = ("sales", "totals")[a % 2]
        if self._version(name) is None:
            return
        self._run(name)
        before = (Counter(self.model.fixed), Counter(self.model.discarded))
        done = self.verb("full_refresh", name)
        assert done.well, done.does
        self.undoable[name] = before

    def undo(self, a: int, b: int) -> None:
        """The last full refresh is taken back."""
        if self.undoable:
            name = sorted(self.undoable)[a % len(self.undoable)]
            before = self.undoable.pop(name)
            done = self.verb("undo", name)
            assert done.well, done.does
            if name == "sales":
                self.model.fixed, self.model.discarded = before
                self.entries.clear()

    def reset_checkpoint(self, a: int, b: int) -> None:
        """A table begins with a new checkpoint; refused where a batch is half written."""
        self.verb("reset_checkpoint", list(self.tables)[a % len(self.tables)])

    def lose(self, a: int, b: int) -> None:
        """Some state files of a table are gone."""
        files = self._state_files(list(self.tables)[a % len(self.tables)])
        for place, file in enumerate(files):
            if (b >> place % 10) % 2:
                shutil.rmtree(file) if file.is_dir() else file.unlink()

    def empty(self, a: int, b: int) -> None:
        """Some notes of a table are empty, as a power cut may leave them."""
        notes = (f for f in self._state_files(list(self.tables)[a % len(self.tables)]) if f.suffix == ".json")
        for place, note in enumerate(notes):
            if (b >> place % 10) % 2:
                note.write_bytes(b"")

    def keep_copy(self, a: int, b: int) -> None:
        """A table's state is copied, as a backup does."""
        name = list(self.tables)[a % len(self.tables)]
        if self._state(name).is_dir():
            shutil.rmtree(self._copy(name), ignore_errors=True)
            shutil.copytree(self._state(name), self._copy(name))
            self.copies.add(name)

    def age(self, a: int, b: int) -> None:
        """An older copy of a table's state stands in for it."""
        if self.copies:
            name = sorted(self.copies)[a % len(self.copies)]
            shutil.rmtree(self._state(name), ignore_errors=True)
            shutil.copytree(self._copy(name), self._state(name))

    def move(self, a: int, b: int) -> None:
        """The lake and its landing zones are moved to another folder."""
        old = self.house.lake.root.parent
        self.moves += 1
        new = old / f"moved {self.moves}"
        new.mkdir()
        for folder in ("lake", "landing"):
            (old / folder).rename(new / folder)
        self.house = Lakehouse(new, self.spark)

    def check(self) -> None:
        """Hold every table, the quarantine and the books against the model."""
        self._check_rows()
        self._check_entries()
        wrong = [str(books) for t in self.tables.values() if not (books := balance(t, self.house.lake)).holds]
        assert not wrong, f"books: {wrong}"

    def _check_rows(self) -> None:
        model = self.model
        bronze = Counter(self._orders_in("orders"))
        files = Counter(o for _, orders in model.loaded for o in orders)
        assert bronze == files, f"bronze: lacks {[*(files - bronze)]}, has besides {[*(bronze - files)]}"
        assert {r["city"]: r["number"] for r in self._rows("cities")} == model.known, "cities"
        good, _ = model.parts()
        silver = self._orders_in("sales")
        ids = sorted(o.id for o in silver), sorted({o.id for o in good})
        assert ids[0] == ids[1], f"silver: ids {ids[0]}, not {ids[1]}"
        other = Counter(silver) - Counter(good)
        assert not other, f"silver: has besides {[*other]}"
        numbers = [(r["city"], r["number"]) for r in self._rows("sales")]
        assert all(number == model.met[city] for city, number in numbers), f"silver: numbers {numbers}"
        sums: dict[str, tuple[int, int]] = {}
        for order in silver:
            total, n = sums.get(order.city, (0, 0))
            sums[order.city] = total + order.total, n + 1
        gold = {r["city"]: (r["total"], r["n"]) for r in self._rows("totals")}
        assert gold == sums, f"gold {gold}"

    def _check_entries(self) -> None:
        """An entry keeps its id, its first-seen time, its attempts and its fix for as long as it is held."""
        _, held = self.model.parts()
        entries = list(self._held())
        there = Counter(e["serial"] for e in entries)
        assert there == held, f"quarantine: lacks {[*(held - there)]}, has besides {[*(there - held)]}"
        given_up = Counter(e["serial"] for e in entries if e["status"] == "discarded")
        assert given_up == self.model.discarded, "quarantine: discarded"
        now = {e["serial"]: e for e in entries if held[e["serial"]] == 1}
        for serial in now.keys() & self.entries.keys():
            old, new = self.entries[serial], now[serial]
            for what in ("entry_id", "quarantined_at"):
                assert new[what] == old[what], f"quarantine: {what} of {serial}"
            assert new["attempts"] >= old["attempts"], f"quarantine: attempts of {serial}"
            assert not old["repaired"] or new["repaired"], f"quarantine: fix of {serial}"
        self.entries = now

    def _run(self, name: str) -> None:
        self.house.run(self.tables[name])
        self._modelled(name)

    def _modelled(self, name: str) -> None:
        if name == "orders":
            self.model.read_orders()
        elif name == "cities":
            self.model.known = dict(self.model.numbers)
        elif name == "sales" and self._version("cities") is not None:
            self.model.take()
            # A row that was good for a while, and is refused again, is an entry of its own.
            _, held = self.model.parts()
            self.entries = {serial: entry for serial, entry in self.entries.items() if serial in held}

    def _orders(self, b: int) -> list[Order]:
        made = []
        for place in range(b % 4 + 1):
            self.serial += 1
            total = (b + place * 7) % 9 - 3
            made.append(Order(self.serial, (b * 3 + place) % 12, CITIES[(b + place) % len(CITIES)], total))
        return made

    def _write(self, name: str, orders: list[Order]) -> None:
        self.model.files[name] = orders
        self.model.unread.add(name)
        self._file("orders", name, [order._asdict() for order in orders])

    def _file(self, zone: str, name: str, records: list[dict[str, Any]]) -> None:
        path = self.house.land(f"shop/{zone}", name, "".join(json.dumps(r) + "\n" for r in records))
        self.seconds += 1
        os.utime(path, (self.seconds, self.seconds))

    def _rows(self, name: str) -> list[dict[str, Any]]:
        return self.house.rows(self.tables[name])

    def _orders_in(self, name: str) -> list[Order]:
        return [Order(*(row[column] for column in Order._fields)) for row in self._rows(name)]

    def _held(self) -> Iterator[dict[str, Any]]:
        for entry in log.rows(self.house.lake.quarantine(self.tables["sales"]), "SELECT * FROM t"):
            if entry["status"] != "replayed":
                yield entry | {name: json.loads(entry["row"])[name] for name in ("serial", "total")}

    def _version(self, name: str) -> int | None:
        return log.version(self.house.lake.path(self.tables[name]))

    def _state(self, name: str) -> Any:
        table = self.tables[name]
        return self.house.lake.root / "shop" / "_state" / table.layer / table.name

    def _copy(self, name: str) -> Any:
        state = self._state(name)
        return state.with_name(f"{state.name}.copy")

    def _state_files(self, name: str) -> list[Any]:
        state = self._state(name)
        return sorted(f for f in state.iterdir() if f.name != "lease") if state.is_dir() else []
