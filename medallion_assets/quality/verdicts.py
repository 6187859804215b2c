"""The current results of a table's checks, from logs and batch records alone: no Spark job, no write."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from medallion_assets.declare.errors import GateClosed
from medallion_assets.declare.expectations import SetRule
from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.names import literal
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import newest_batch
from medallion_assets.lake.staging import StagedLake
from medallion_assets.quality.conservation import balance, files_out_of_balance, hand_made
from medallion_assets.quality.set_rule_checks import answer_of, repeated_keys
from medallion_assets.sources import file_status
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.formats.json_scan import scan
from medallion_assets.sources.kafka import accounted, landed_of
from medallion_assets.sources.quarantine import OPEN, own_members

PLACES = 3
LONGEST = 200
"""Characters of a row that are shown."""
LOOKED_INTO, MOST_OF_A_NAME = 20, 60
"""Rows whose rescued fields are named, and characters of a name."""


def sample_of(rule: str, table: Table, lake: Lake) -> str:
    """Return the newest open entries of a rule, one line each, with their rows if ``sample_rows`` allows it.

    Dagster's event storage keeps the result of a check, and rows may hold data that must not be there.
    """
    shown = lake.settings.sample_rows
    matching = f"status = {literal(OPEN)} AND array_has(rules, {literal(rule)})"
    newest = f"ORDER BY quarantined_at DESC, entry_id LIMIT {max(shown, PLACES)}"
    found = log.rows(lake.quarantine(table), f"SELECT * FROM t WHERE {matching} {newest}")
    return "\n".join(_line(entry, number < shown) for number, entry in enumerate(found))


def _line(entry: dict[str, object], in_full: bool) -> str:
    place = " ".join(str(entry[name]) for name in ("source_file", "position") if entry.get(name))
    entry_name = f"{str(entry['entry_id'])[:8]} {place}".strip()
    return f"{entry_name}: {str(entry['row'])[:LONGEST]}" if in_full else entry_name


CONSERVATION, UNIQUE, FILES = "conservation", "unique_keys", "every_file_taken"
VALUES, OFFSETS = "values_conserved", "offsets_conserved"
OF_FILES = "conservation_of_each_file"
SCHEMA, RESCUED, LATE = "schema_unchanged", "nothing_rescued", "no_late_rows"


@dataclass(frozen=True)
class Verdict:
    """One check's result: whether it passed, whether a failure blocks downstream tables, and its numbers."""

    name: str
    passed: bool
    blocking: bool
    words: str
    numbers: dict[str, Any] = field(default_factory=dict)


def verdicts(table: Table, lake: Lake) -> Iterator[Verdict]:
    """Return every check of the table."""
    yield conservation(table, lake)
    if table.source:
        yield values_conserved(table, lake)
    if table.source and table.source.kafka:
        yield offsets_conserved(table, lake)
    if table.named_once_by:
        yield unique_keys(table, lake)
    yield from (set_rule(rule, table, lake) for rule in table.set_rules if rule.on_violation == "fail")
    yield from facts(table, lake)


def facts(table: Table, lake: Lake) -> Iterator[Verdict]:
    """Return the checks of the last run that never block."""
    if table.source:
        yield every_file_taken(table, lake)
    if table.source and table.source.learns:
        yield schema_unchanged(table, lake)
    if table.source and table.source.rescued:
        yield nothing_rescued(table, lake)
    if table.watermarked:
        yield no_late_rows(table, lake)
    yield from expectations(table, lake)
    yield from (set_rule(rule, table, lake) for rule in table.set_rules if rule.on_violation == "warn")


def set_rule(rule: SetRule, table: Table, lake: Lake) -> Verdict:
    """Return the verdict of a rule over the whole table; a rule with ``on_violation="fail"`` blocks."""
    holds, words, numbers = answer_of(rule, table, lake)
    return Verdict(rule.name, holds, rule.on_violation == "fail", words, numbers)


def conservation(table: Table, lake: Lake) -> Verdict:
    """Passes where each incoming record is in the table, in its quarantine or counted as removed."""
    books = balance(table, lake)
    numbers = {
        "incoming": books.incoming,
        "rows_kept": books.rows,
        "quarantined": books.quarantined,
        "duplicates": books.duplicates,
        "dropped": books.dropped,
        "expanded": books.expanded,
        "by_hand": books.by_hand,
        "missing": books.missing,
    }
    words = str(books)
    if books.missing < 0 and table.refuses and not table.source and table.rows_out == "one":
        words += "; where one upstream row may give many rows, declare rows_out='many'"
    asks = not books.holds and not table.row_count_column
    made = [change for change in hand_made(table, lake) if change.removed] if asks else []
    if made:
        words += (
            f"; not by a run: {made[0]}. `medallion accept_changes {table.key} --why ...` counts such rows"
        )
    return Verdict(CONSERVATION, books.holds, True, words, numbers)


def files_conserved(table: Table, lake: Lake) -> Verdict:
    """Passes where each landing file's rows are in the table or its quarantine.

    Reads a column of the table and of its upstream, so it runs only before a staged batch is published.
    """
    wrong = files_out_of_balance(table, lake)
    words = "; ".join(
        f"{file}: {abs(n)} rows {'fewer' if n > 0 else 'more'}" for file, n in list(wrong.items())[:5]
    )
    if wrong:
        words += (
            f"; where that was done by hand, and was meant: `medallion accept_changes {table.key} --why ...`"
        )
    return Verdict(OF_FILES, not wrong, True, words or "every file's rows are there", {"files": len(wrong)})


def values_conserved(table: Table, lake: Lake) -> Verdict:
    """Passes where every value of every loaded file is in its column, in rescued data or in quarantine."""
    ledger = lake.ledger(table)
    wrong = file_status.unaccounted_values(ledger)
    read, uncounted, unkept = file_status.last_values(ledger)
    parts = [f"{path}: {_differences(columns)}" for path, columns in list(wrong.items())[:5]]
    parts = parts or [f"every one of the last load's {read} values that can be counted is accounted for"]
    parts += [f"not counted: {name} ({why})" for name, why in sorted(uncounted.items())[:10]]
    parts += [f"not kept, as declared: {name} ({n} values)" for name, n in sorted(unkept.items())[:10]]
    numbers = {
        "values_read": read,
        "values_unaccounted": sum(sum(map(abs, columns.values())) for columns in wrong.values()),
        "values_not_kept": sum(unkept.values()),
        "columns_not_counted": len(uncounted),
    }
    return Verdict(VALUES, not wrong, True, "; ".join(parts), numbers)


def offsets_conserved(table: Table, lake: Lake) -> Verdict:
    """Passes where the offsets taken of each Kafka partition leave none out and none is taken twice."""
    query = "SELECT path, records FROM ledger WHERE status = 'admitted' ORDER BY sequence"
    found = {
        landed_of(str(row["path"])): int(str(row["records"]))
        for row in ledgers.rows(lake.ledger(table), query)
    }
    words, numbers, is_whole = accounted({file: count for file, count in found.items() if file})
    # What is gone from the broker is known and cannot come back: the tables downstream need not wait for it.
    is_complete = not (numbers["offsets_lost"] or numbers["topics_before"])
    return Verdict(OFFSETS, is_whole and is_complete, not is_whole, words, numbers)


def _differences(columns: dict[str, int]) -> str:
    return ", ".join(f"{name} {-n:+d} values" for name, n in columns.items())


def unique_keys(table: Table, lake: Lake) -> Verdict:
    """Passes where no combination of ``unique_by`` is in the table twice."""
    twice, sample = repeated_keys(table.named_once_by, lake.path(table))
    words = f"{twice} keys are there more than once" if twice else "every key is there once"
    return Verdict(UNIQUE, not twice, True, words, {"repeated_keys": twice, "sample": str(sample)})


def every_file_taken(table: Table, lake: Lake) -> Verdict:
    """Passes where discovery admitted every file it saw; names each refused file with its reason."""
    assert table.source is not None
    ledger = lake.ledger(table)
    left = refused_files(ledger)
    words = "; ".join(f"{row['path']}: {row['reason']}" for row in left[:5])
    return Verdict(FILES, not left, False, words or "every file was taken", {"refused_files": len(left)})


def schema_unchanged(table: Table, lake: Lake) -> Verdict:
    """Passes where the last batch's files had only the known columns and types."""
    last = newest_batch(table, lake)
    drift = last.drift if last else {}
    typed = ("added", "widened", "retyped")
    words = [f"{what} {name} {kind}" for what in typed for name, kind in drift.get(what, {}).items()]
    words += [f"left out {name}" for name in drift.get("left_out", ())]
    words += [f"missing {name}" for name in drift.get("missing", ())]
    words += [f"{name} came with {file}" for name, file in drift.get("brought_by", {}).items()]
    counts = {what: len(drift.get(what, ())) for what in (*typed, "left_out", "missing")}
    message = "; ".join(words[:20]) or "the columns and types that were known"
    return Verdict(SCHEMA, not words, False, message, counts)


def nothing_rescued(table: Table, lake: Lake) -> Verdict:
    """Passes where no row of the last batch has rescued data."""
    last = newest_batch(table, lake)
    rescued, read = (last.rescued, last.read) if last else (0, 0)
    words = f"{rescued} of the {read} records of the last batch have fields in the rescued data column"
    fields = _rescued_fields(table, lake, last.position) if last and rescued else []
    words += f": {', '.join(fields)}" if fields else ""
    return Verdict(RESCUED, rescued == 0, False, words, {"rescued": rescued, "read": read})


def _rescued_fields(table: Table, lake: Lake, batch_id: int) -> list[str]:
    """Return the names of rescued fields of a batch, read from up to ``LOOKED_INTO`` of its rows."""
    assert table.source is not None
    path, column = lake.path(table), table.source.rescued
    if column not in (name for name, _ in log.schema(path)):
        # The table's query did not pass it on.
        return []
    quoted = '"' + column.replace('"', '""') + '"'
    chosen = f"_batch_id = {batch_id} AND {quoted} IS NOT NULL LIMIT {LOOKED_INTO}"
    found = log.rows(path, f"SELECT {quoted} AS rescued FROM t WHERE {chosen}")
    names = {key[:MOST_OF_A_NAME] for row in found for key, _, _ in own_members(scan(row["rescued"]).content)}
    return sorted(names)[:LOOKED_INTO]


def no_late_rows(table: Table, lake: Lake) -> Verdict:
    """Passes where no row of the last batch came after its window had closed."""
    last = newest_batch(table, lake)
    late, total = (last.late, last.total_late) if last else (0, 0)
    words = f"{late} rows of the last batch came after their window had closed, {total} of all so far"
    numbers = {"late": late, "late_so_far": total, "watermark": (last.watermark if last else "") or "none",
               "open_groups": last.open_groups if last else 0}  # fmt: skip
    return Verdict(LATE, late == 0, False, words, numbers)


def refused_files(ledger: Any) -> list[dict[str, object]]:
    """Return the files whose newest contents discovery did not admit, and those that no reader could take."""
    return [*ledgers.not_loaded(ledger), *file_status.corrupt(ledger)]


def expectations(table: Table, lake: Lake) -> Iterator[Verdict]:
    """Return each expectation's counts over the last micro-batch."""
    last = newest_batch(table, lake)
    for rule in table.expectations:
        failed = last.rules.get(rule.name, 0) if last else 0
        # A correction can judge more rows than it adds, because rows that it removes are subtracted.
        read = max(last.read, failed, 0) if last else 0
        percent = round(100 * failed / read, 3) if read else 0.0
        words = (
            f"{failed} of {read} rows broke it in the last batch; what becomes of them: {rule.on_violation}"
        )
        numbers = {"failed": failed, "passed": read - failed, "percent": percent, "predicate": rule.predicate}
        if failed and rule.on_violation == "quarantine":
            numbers["sample"] = sample_of(rule.name, table, lake)
        yield Verdict(rule.name, failed == 0, False, words, numbers)


def refuse_unfit(table: Table, stage: StagedLake) -> None:
    """Raise where a blocking check fails in the staged table.

    Raises:
        GateClosed: Names the checks.
    """
    broken = [
        v for v in (*verdicts(table, stage), files_conserved(table, stage)) if v.blocking and not v.passed
    ]
    if broken:
        words = "; ".join(f"{v.name}: {v.words}" for v in broken)
        raise GateClosed(
            f"{table.key}: judged before anyone could read it, and kept back: {words}. Nothing was published "
            "and nothing is lost: mend upstream or the rule, and run again."
        )
