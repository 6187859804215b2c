"""A feed of changes to people, and the history plain Python makes of it."""

from medallion_assets.declare import Pipeline, keep_changes, stream
from medallion_assets.delta import log
from medallion_assets.lake.paths import Lake
from medallion_assets.quality.conservation import balance
from medallion_assets.runs.run import refresh
from medallion_assets.settings import Settings
from medallion_assets_tests.shop import json_lines

SCHEMA = "id STRING, at INT, op STRING, city STRING, note STRING"


def people(**kept):
    shop = Pipeline("shop")

    @shop.bronze()
    def events(files=shop.landing("events", format="json", schema=SCHEMA)):  # noqa: B008
        """One row per event."""
        return files

    @shop.silver(scd=keep_changes("id", "at", **kept))
    def people(events=stream(events)):
        """One row per person and state."""
        return events.select("id", "at", "op", "city", "note")

    return events, people


def sortable(rows):
    return sorted(rows, key=repr)


def loaded(folder, spark, tables, batches):
    lake = Lake(Settings(lake=folder / "lake", landing=folder / "landing", settle_seconds=0).resolved())
    for number, batch in enumerate(batches):
        file = folder / "landing/shop/events" / f"{number}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json_lines(*batch))
        for table in tables:
            refresh(table, lake, lambda: spark)
            assert balance(table, lake).holds, str(balance(table, lake))
    return lake


def table_rows(lake, table):
    return log.rows(lake.path(table), "SELECT * FROM t")


def model_rows(events, kind, tracked=("city", "note")):
    found = []
    for key in sorted({e["id"] for e in events}):
        found += states_of([e for e in events if e["id"] == key], kind, tracked)
    return found


def states_of(events, kind, tracked):
    once = [dict(t) for t in {tuple(sorted(e.items())) for e in events}]
    tied = {e["at"] for e in once if sum(o["at"] == e["at"] for o in once) > 1}
    states = []
    for event in sorted((e for e in once if e["at"] not in tied), key=lambda e: e["at"]):
        last = states[-1] if states and states[-1][4] is None else None
        if last and event["op"] != "delete" and all(last[5][c] == event[c] for c in tracked):
            states[-1] = (*last[:1], event["city"], event["note"], last[3], None, event)
            continue
        if last:
            states[-1] = (*last[:4], event["at"], last[5])
        if event["op"] != "delete":
            states.append((event["id"], event["city"], event["note"], event["at"], None, event))
    return [s[:5] for s in states if kind == 2 or s[4] is None]
