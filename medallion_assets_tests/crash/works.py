"""What a sweep crashes: a pipeline's run, its run in Dagster, and each verb that writes, on a small shop."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from medallion_assets.declare import Pipeline, keep_changes, stream
from medallion_assets.declare.pipeline import chosen
from medallion_assets.lake.paths import Lake
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.pipelines import PIPELINES
from medallion_assets.runs.run import run_tables
from medallion_assets.simulators import land
from medallion_assets_tests.faults.trial import shop_tables
from medallion_assets_tests.shop import totals_file


@dataclass(frozen=True)
class Work:
    """What lands before the first run and before the crash, and what is crashed; it gives what went wrong.

    ``over`` is a file of the lake: once it is there, what follows is a run like any other, whose steps are
    those of the work ``shop``.
    """

    tables: list[Any]
    first: Callable[[Lake], None]
    second: Callable[[Lake], None]
    does: Callable[[list[Any], Lake, Any], list[str]]
    over: str = ""


def run(tables, lake, spark):
    outcomes = run_tables(tables, lake, spark)
    return [f"{o.table.key}: {o.error or o.verdicts}" for o in outcomes if not o.is_well]


def of_pipeline(name, does=run):
    def landed(lake):
        land(name, lake.settings.landing, 1, with_faults=True)

    return Work(chosen(PIPELINES, [name]), landed, landed, does)


def in_dagster(tables, lake, spark):
    from medallion_assets.definitions import defs

    os.environ |= {"MEDALLION_LAKE": str(lake.root), "MEDALLION_LANDING": str(lake.settings.landing)}
    spark()
    done = defs.resolve_job_def(f"{tables[0].pipeline}_chain").execute_in_process(raise_on_error=False)
    return [] if done.success else [str(event.step_key) for event in done.get_step_failure_events()]


def shop():
    orders, sales, *gold = shop_tables(allow_overwrites="replace", settle_seconds=0)
    made = Pipeline("shop", tables=orders.registry)

    @made.silver(scd=keep_changes("kind", "id", type=2))
    def kinds(orders=stream(orders)):
        """One row per kind of order and state."""
        return orders.selectExpr("id % 3 AS kind", "id", "total")

    @made.silver(unique_by="id", write_audit_publish=True)
    def judged(orders=stream(orders)):
        """One row per order, published once it is judged."""
        return orders.select("id", "total")

    return [orders, sales, kinds, judged, *gold]


def orders_land(lake, name, start, totals):
    zone = lake.settings.landing / "shop/orders"
    zone.mkdir(parents=True, exist_ok=True)
    draft = zone / f".{name}"
    draft.write_text(totals_file(*totals, start=start) + '{"id": \n')
    draft.replace(zone / name)


def of_shop(does, second=lambda lake: orders_land(lake, "2.json", 10, (3, -4, 5))):
    return Work(shop(), lambda lake: orders_land(lake, "1.json", 0, (5, -1, 7, -2)), second, does)


def of_verb(verb, *names, **asked):
    def does(tables, lake, spark):
        wrong = []
        for table in (table for table in tables if table.name in names or not names):
            # Whoever asked knows which of their commands came to an end, and asks the others again.
            ended = lake.root / f"{verb} of {table.name}"
            if not ended.exists():
                told = VERBS[verb](table, lake, spark, VerbRequest(**asked))
                wrong += [] if told.well else [f"{verb} {told.table}: {told.does}"]
                ended.touch()
        return wrong + run(tables, lake, spark)

    made = of_shop(does)
    last = [table.name for table in made.tables if table.name in names or not names][-1]
    return replace(made, over=f"{verb} of {last}")


def corrected(lake):
    orders_land(lake, "1.json", 0, (6, 1, -7))
    orders_land(lake, "2.json", 10, (3, -4, 5))


WORKS: dict[str, Callable[[], Work]] = {
    **{name: lambda name=name: of_pipeline(name) for name in PIPELINES},  # type: ignore[misc]
    "dagster": lambda: of_pipeline("school", in_dagster),
    "shop": lambda: of_shop(run),
    "corrections": lambda: of_shop(run, corrected),
    "replay": lambda: of_verb("replay", "sales", fix="total = 9"),
    "full_refresh": lambda: of_verb("full_refresh", "sales", "kinds", "totals", "merged"),
    "reprocess": lambda: of_verb("reprocess", "orders", files=("1.json",)),
    "maintain": lambda: of_verb("maintain"),
}
