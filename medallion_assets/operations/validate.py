"""``validate``: what has landed and is not yet taken, judged by schema and rules; nothing is written."""

from collections import Counter

from pyspark.sql import DataFrame

from medallion_assets.declare.table import Table
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.paths import Lake
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult
from medallion_assets.runtime.bronze import judged_records
from medallion_assets.sources.discovery import DiscoveryOptions
from medallion_assets.sources.validate import Validation, validated


def validate(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Read the files a run would take and says what would become of their records.

    Raises:
        BatchRefused: The run itself would be refused, with the same words.
    """
    if not table.source:
        return VerbResult(table.key, "it reads no files: validate the bronze tables it comes from")
    place = load_target_of(table, lake)
    rules: Counter[str] = Counter()

    def judge(records: DataFrame) -> None:
        rules.update(judged_records(records, table))

    look = DiscoveryOptions(lake.settings.settle_seconds)
    found = validated(place, look, None, lake.settings, -1, spark, judge)
    broken = {name: count for name, count in rules.items() if count}
    numbers = {"files": found.files, "unreadable": found.corrupt_files, "good": found.good,
               "malformed": found.bad, "reasons": found.reasons, "rules": broken}  # fmt: skip
    well = not found.bad and not broken
    return VerbResult(table.key, _words(found, broken), "unseen landing files", well=well, found=numbers)


def _words(found: Validation, broken: dict[str, int]) -> str:
    if not found.files and not found.corrupt_files:
        return "no file has landed that it has not taken"
    words = f"{found.files} files: {found.good} records fit, {found.bad} would be quarantined"
    words += f", {found.corrupt_files} files cannot be read" if found.corrupt_files else ""
    reasons = [f"{count} {why}" for why, count in (*found.reasons.items(), *broken.items())]
    return words + (f" ({'; '.join(reasons)})" if reasons else "")
