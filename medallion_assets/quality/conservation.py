"""Conservation: incoming rows equal the rows in the table, in its quarantine, and counted as removed.

The two sides never come from one source. For bronze, what discovery counted in the files outside
Spark is held against Delta commits; for silver, upstream's commits against this table's; for an
aggregate, upstream's commits against the row counts of its groups.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.errors import DamagedTable
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import newest_batch, position
from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.known_files import replaces_files
from medallion_assets.sources.quarantine import LATE, QUERY, REPLAYED, held_rows


@dataclass(frozen=True)
class HandMade:
    """A commit that no run of the table wrote.

    Attributes:
        where: ``table`` or ``quarantine``.
        version: Of that Delta table.
        operation: Delta's name of it, such as ``DELETE``.
        removed: Rows it removed; negative where it added some.
    """

    where: str
    version: int
    operation: str
    removed: int

    def __str__(self) -> str:
        """Return the commit as one line of text."""
        return f"{self.operation} in version {self.version} of the {self.where} ({self.removed} rows fewer)"


def hand_made(table: Table, lake: Lake) -> list[HandMade]:
    """Return the commits by hand that changed rows, or the row count, of table or quarantine."""
    # Of a staged table those of the table itself: a clone begins with a commit of its own.
    places = {"table": Lake.path(lake, table), "quarantine": Lake.quarantine(lake, table)}
    return [made for where, path in places.items() for made in _in_log(where, path)]


def _in_log(where: str, path: Path) -> Iterator[HandMade]:
    for commit in reversed(log.history(path)):
        version, operation = int(commit["version"]), str(commit.get("operation", ""))
        if version == 0 or log.commit_metadata_of(commit):
            continue
        try:
            removed = log.row_count(path, version - 1) - log.row_count(path, version)
        except DamagedTable:
            # Delta has cleaned up the log up to this version.
            continue
        if removed or operation in ("UPDATE", "MERGE"):
            yield HandMade(where, version, operation, removed)


def swapped(made: Collection[HandMade], table: Table, lake: Lake) -> int:
    """Return how many rows commits by hand put in for as many of other files that they removed."""
    wrong = files_out_of_balance(table, lake) if made else {}
    fewer, more = (sum(max(0, sign * n) for n in wrong.values()) for sign in (1, -1))
    removed, put_in = (sum(max(0, sign * change.removed) for change in made) for sign in (1, -1))
    return min(fewer, more) if fewer <= removed and more <= put_in else 0


def explains(made: Collection[HandMade], books: "Balance") -> bool:
    """Return true where commits by hand removed (or added) as many rows as are missing (or too many)."""
    removed, total = sum(change.removed for change in made), books.by_hand + books.missing
    return min(0, removed) <= total <= max(0, removed)


@dataclass(frozen=True)
class Balance:
    """Both sides of one table's equation, over all its history.

    Attributes:
        incoming: Records in the files taken, or rows upstream committed up to the table's position.
        rows, quarantined, duplicates, dropped: The same records by outcome.
        expanded: Rows beyond one for each upstream row, where the query may give many.
        by_hand: Rows removed by hand, as a person accepted (``accept_changes``).
        waiting: Rows in windows that are still open, and so not written yet.
        noun: What ``rows`` are: rows in the table, or upstream rows that its groups or states hold.
    """

    table: str
    incoming: int
    rows: int
    quarantined: int
    duplicates: int = 0
    dropped: int = 0
    waiting: int = 0
    noun: str = "rows"
    expanded: int = 0
    by_hand: int = 0

    @property
    def missing(self) -> int:
        """Incoming records that are not accounted for; negative where there are more rows than records."""
        there = self.rows + self.quarantined + self.duplicates + self.dropped + self.waiting + self.by_hand
        return self.incoming + self.expanded - there

    @property
    def holds(self) -> bool:
        """Return true where every record is accounted for."""
        return self.missing == 0

    def __str__(self) -> str:
        """Return the equation as a line to read."""
        parts = f"{self.rows} {self.noun} + {self.quarantined} quarantined"
        parts += f" + {self.duplicates} duplicates" if self.duplicates else ""
        parts += f" + {self.dropped} dropped" if self.dropped else ""
        parts += f" + {self.waiting} in open windows" if self.waiting else ""
        parts += f" + {self.by_hand} removed by hand (accepted)" if self.by_hand else ""
        came = f"{self.incoming} in"
        came += f" + {self.expanded} more than one for a row" if self.expanded else ""
        return f"{came} = {parts}" if self.holds else f"{came}, but {parts}"


def balance(table: Table, lake: Lake) -> Balance:
    """Return both sides of the table's equation from logs and ledgers, without a Spark job."""
    if table.flows:
        return _of_all_flows(table, lake)
    last = newest_batch(table, lake)
    if table.row_count_column:
        return _of_groups(table, lake, last.open_rows if last else 0)
    replaces = _replaces_files(table, lake)
    missing = 0 if replaces or last is None else last.total_missing
    return Balance(
        table.key,
        incoming(table, lake) - missing,
        # A row of a changing dimension combines many events, and a deleted key has no row: use the count.
        (last.total_applied if last else 0) if table.scd else log.row_count(lake.path(table)),
        held_rows(lake.quarantine(table)),
        last.total_duplicates if last else 0,
        last.total_dropped if last else 0,
        noun="applied" if table.scd else "rows",
        expanded=last.total_expanded if last else 0,
        by_hand=last.total_by_hand if last else 0,
    )


def _of_groups(table: Table, lake: Lake, waiting: int) -> Balance:
    # What its query failed on is in no group; a late row is held once for each closed window it lies in.
    quarantine, times = lake.quarantine(table), table.window_overlap
    held = held_rows(quarantine, QUERY) * times + held_rows(quarantine, LATE)
    rows = _rows_stood_for(table, lake.path(table))
    return Balance(table.key, incoming(table, lake) * times, rows, held, waiting=waiting, noun="in groups")


def _of_all_flows(table: Table, lake: Lake) -> Balance:
    """Return the equation of a table that several streams fill: their sums against the one table."""
    parts = [balance(replace(table, flows=[]), lake), *(balance(flow, lake) for flow in table.flows)]
    rows = sum(part.rows for part in parts) if table.scd else parts[0].rows
    return Balance(
        table.key,
        sum(part.incoming for part in parts),
        rows,
        parts[0].quarantined,
        sum(part.duplicates for part in parts),
        sum(part.dropped for part in parts),
        noun=parts[0].noun,
        expanded=sum(part.expanded for part in parts),
        by_hand=sum(part.by_hand for part in parts),
    )


def incoming(table: Table, lake: Lake) -> int:
    """Return the number of records up to the table's position in the upstream log."""
    version, upstream = position(table, lake), lake.upstream_log(table)
    if version < 0 or not log.exists(upstream):
        return 0
    if _replaces_files(table, lake):
        return _records_in_newest(upstream, version)
    if table.source:
        return _records_in_files(upstream, version)
    return log.row_count(upstream, version)


FILE = "_source_file"


def files_out_of_balance(table: Table, lake: Lake) -> dict[str, int]:
    """Return how many rows of each landing file upstream has more than the table and its quarantine.

    Only of a table whose rows say which file they are of, by upstream's names, one for each of upstream.
    Where duplicates were counted or a rule dropped rows, a file may lack some, and all together as many as
    that; where a person accepted that rows were put in by hand, it may have more.
    """
    last, upstream, version = newest_batch(table, lake), lake.upstream_log(table), position(table, lake)
    simple = table.output_mode == "append" and not (table.flows or table.stateful or table.rows_out == "many")
    columns = [{name for name, _ in log.schema(path)} for path in (upstream, lake.path(table))]
    if table.source or not simple or last is None or version < 0 or not all(FILE in c for c in columns):
        return {}
    by_file = f'SELECT "{FILE}" AS file, count(*) AS n FROM t GROUP BY 1'
    held = f"SELECT source_file AS file, count(*) AS n FROM t WHERE status <> '{REPLAYED}' GROUP BY 1"
    lacks = Counter({row["file"]: int(row["n"]) for row in log.rows_at(upstream, version, by_file)})
    known = {*lacks, None}
    for path, sql in ((lake.path(table), by_file), (lake.quarantine(table), held)):
        lacks.subtract({row["file"]: int(row["n"]) for row in log.rows(path, sql)})
    if not known.issuperset(lacks):
        # A query may give its files other names, or take the column from a table it joins.
        return {}
    put_in = last.total_put_in_by_hand or max(0, -last.total_by_hand)
    may_lack = last.total_duplicates + last.total_dropped + last.total_by_hand + put_in > 0
    may_exceed = put_in > 0
    wrong = {
        str(file): n for file, n in lacks.items() if (n > 0 and not may_lack) or (n < 0 and not may_exceed)
    }
    return dict(sorted(wrong.items()))


def _replaces_files(table: Table, lake: Lake) -> bool:
    return table.source is not None and replaces_files(table.source, lake.path(table))


def _records_in_files(ledger: Path, version: int) -> int:
    counted = f"SELECT CAST(sum(records) AS BIGINT) AS n FROM ledger WHERE status = '{ledgers.ADMITTED}'"
    return int(str(ledgers.rows(ledger, counted, version)[0]["n"] or 0))


def _records_in_newest(ledger: Path, version: int) -> int:
    """Return the records of each file's newest contents, of those that were not missing or damaged."""
    turn = "row_number() OVER (PARTITION BY path ORDER BY sequence DESC) AS turn"
    lost = ", ".join(map(str, outcomes.lost(ledger))) or ledgers.NONE
    admitted = f"status = '{ledgers.ADMITTED}' AND sequence NOT IN ({lost})"
    newest = f"SELECT records, {turn} FROM ledger WHERE {admitted}"
    counted = f"SELECT CAST(sum(records) AS BIGINT) AS n FROM ({newest}) WHERE turn = 1"
    return int(str(ledgers.rows(ledger, counted, version)[0]["n"] or 0))


def _rows_stood_for(table: Table, path: Path) -> int:
    found = log.rows(path, f'SELECT CAST(sum("{table.row_count_column}") AS BIGINT) AS n FROM t')
    return int(found[0]["n"] or 0) if found else 0
