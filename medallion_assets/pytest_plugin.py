"""Fixtures for the tests of your own pipelines: files land, tables run, runs die, books are checked.

Installed with the package: a test that takes ``lakehouse`` gets a lake and landing zones of its own, and
one Spark session for the whole test run.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from medallion_assets.sources.errors import BatchRefused
from medallion_assets.storage import storage_of


class Crashed(BatchRefused):
    """The run died here. A refusal to the engine, so that it looks for no fault in the rows."""


class Lakehouse:
    """A lake, its landing zones and what a test does to them."""

    def __init__(self, folder: Path, spark: Any) -> None:
        """Take an empty folder, or prefix in S3, and what gives the session."""
        from medallion_assets.lake.paths import Lake
        from medallion_assets.settings import Settings

        self.lake = Lake(Settings(lake=folder / "lake", landing=folder / "landing").resolved())
        self._spark = spark

    def land(self, zone: str, name: str, content: str | bytes) -> Path:
        """Put a file into a landing zone, ``land("shop/orders", "a.json", text)``; gives its path."""
        target = self.lake.settings.landing / zone / name
        # As files should land: whole, in one step.
        storage_of(str(target)).put(str(target), content if isinstance(content, bytes) else content.encode())
        return target

    def run(self, *tables: Any) -> dict[str, Any]:
        """Take what is new through these tables, in this order; gives each one's ``Refresh`` by key."""
        from medallion_assets.runs.run import refresh

        return {table.key: refresh(table, self.lake, self._spark) for table in tables}

    def rows(self, table: Any, sql: str = "SELECT * FROM t") -> list[dict[str, Any]]:
        """Return what SQL over a table (``t``) answers, without Spark."""
        from medallion_assets.delta import log

        return log.rows(self.lake.path(table), sql)

    @contextmanager
    def crash_at(self, commit: int, when: str = "after") -> Iterator[None]:
        """Lets what runs in the block die ``before`` or ``after`` its n-th Delta commit, counted from 1.

        Raises:
            AssertionError: The block ended without so many commits: nothing died.
        """
        from medallion_assets.delta import commit as commits
        from medallion_assets.delta import few_rows

        deaths, signed = _Deaths(commit, when), commits.signed
        callers = [m for m in list(sys.modules.values()) if getattr(m, "signed", None) is signed]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(commits, "_save", deaths.of_call(commits._save))
            patch.setattr(few_rows, "_save_few", deaths.of_call(few_rows._save_few))
            for module in callers:
                patch.setattr(module, "signed", deaths.of_block(signed))
            try:
                yield
            except Crashed:
                return
        raise AssertionError(f"nothing died: there were {deaths.made} commits, not {commit}")

    def assert_conserved(self, *tables: Any) -> None:
        """Fails where a record that came in is neither in a table, nor in quarantine, nor counted out."""
        from medallion_assets.quality.conservation import balance

        wrong = [f"{t.key}: {books}" for t in tables if not (books := balance(t, self.lake)).holds]
        assert not wrong, "; ".join(wrong)

    def assert_exactly_once(self, *tables: Any) -> None:
        """Fails where a recount of files and rows finds one lost or doubled, or a further run moves any."""
        from medallion_assets.operations.audit import audit
        from medallion_assets.operations.requests import VerbRequest

        results = [audit(table, self.lake, self._spark, VerbRequest()) for table in tables]
        wrong = [f"{t.table}: {t.does}" for t in results if not t.well]
        again = self.run(*tables)
        wrong += [f"{key}: a further run took {done.total('read')} rows" for key, done in again.items()
                  if done.total("read")]  # fmt: skip
        assert not wrong, "; ".join(wrong)


@pytest.fixture(scope="session")
def medallion_spark_stays() -> bool:
    """Return whether the session lives for many minutes; to be overridden in your ``conftest.py``.

    Java then compiles what runs often a second time, which a short test run never earns back.
    """
    return False


@pytest.fixture(scope="session")
def medallion_spark(medallion_spark_stays: bool) -> Iterator[Any]:
    """Return what starts the test run's one Spark session, when something first needs it.

    It evaluates expressions without compiling code for them; ``MEDALLION_SPARK_CONF`` wins.
    """
    from medallion_assets.session import start_session
    from medallion_assets.session.start import OF_FEW_ROWS
    from medallion_assets.settings import Settings

    started: list[Any] = []

    def session() -> Any:
        if not started:
            settings = Settings().resolved()
            of_tests = settings.model_copy(update={"spark_conf": OF_FEW_ROWS | settings.spark_conf})
            started.append(start_session(of_tests, medallion_spark_stays))
        return started[0]

    yield session
    for one in started:
        one.stop()


@pytest.fixture
def lakehouse(tmp_path: Path, medallion_spark: Any) -> Lakehouse:
    """Return a lakehouse of this test's own."""
    return Lakehouse(tmp_path, medallion_spark)


class _Deaths:
    """Counts Delta commits, and dies at one."""

    def __init__(self, commit: int, when: str) -> None:
        self.commit, self.when, self.made = commit, when, 0

    def of_call(self, save: Any) -> Any:
        """Return a function that commits, with its death."""

        def counted(*args: Any) -> None:
            with self._counted():
                save(*args)

        return counted

    def of_block(self, signed: Any) -> Any:
        """Return a context in which a commit is made, with its death."""

        @contextmanager
        def counted(*args: Any) -> Iterator[None]:
            with self._counted(), signed(*args):
                yield

        return counted

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.made += 1
        is_chosen = self.made == self.commit
        if is_chosen and self.when == "before":
            raise Crashed
        yield
        if is_chosen and self.when == "after":
            raise Crashed
