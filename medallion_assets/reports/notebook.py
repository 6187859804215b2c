"""Runs tables from a notebook or a script: a line for each as it ends, and how it went."""

from pyspark.sql import SparkSession

from medallion_assets.declare.errors import DeclarationError, RefreshFailed
from medallion_assets.declare.pipeline import Pipeline, upstream_first
from medallion_assets.declare.table import Table
from medallion_assets.declare.triggers import timings_of
from medallion_assets.lake.paths import Lake
from medallion_assets.reports import show
from medallion_assets.runs.run import Outcome, run_tables
from medallion_assets.session import start_session
from medallion_assets.session.catalog import name_tables
from medallion_assets.settings import current_settings


def run(*chosen: Pipeline | Table, trigger: str = "", spark: SparkSession | None = None) -> list[Outcome]:
    """Load what is new into these tables, upstream first, as ``medallion run`` does.

    Prints a line for each table as it ends, its checks that did not pass, and a last line that counts.

    Args:
        chosen: Pipelines, for all of their tables, and tables.
        trigger: ``availableNow``, or ``once`` for all that is new in one micro-batch; where it is empty,
            what each table declares.
        spark: The session to use; the project's own is started where it is None and something is new.

    Returns:
        Each table's outcome: rows, books and checks.

    Raises:
        RefreshFailed: A table or a check that blocks failed, so that the cells below do not go on; what
            the other tables took is committed.
        DeclarationError: The trigger is a processing time, which is for ``medallion stream``.
    """
    if trigger not in ("", "availableNow", "once"):
        raise DeclarationError(
            f"trigger {trigger!r} is for `medallion stream`: a run takes what is there, and ends"
        )
    tables: list[Table] = []
    for one in chosen:
        tables += one.tables.values() if isinstance(one, Pipeline) else [one]
    lake = Lake(current_settings())
    timings = timings_of(tables, [trigger] if trigger else [])
    outcomes = []
    for outcome in run_tables(
        upstream_first(tables), lake, lambda: spark or start_session(lake.settings), timings=timings
    ):
        outcomes.append(outcome)
        show.outcome(outcome)
    show.summary(outcomes)
    if spark:
        name_tables(spark, lake.settings.lake)
    if failed := [outcome.table.key for outcome in outcomes if not outcome.is_well]:
        raise RefreshFailed(f"failed, see above: {', '.join(failed)}; the other tables are committed")
    return outcomes
