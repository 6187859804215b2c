"""What is in quarantine, by rule and row by row, read without Spark."""

from typing import Any

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.lake.paths import Lake

BY_RULE = """
SELECT rule, reason_class, count(*) AS quarantined, min(quarantined_at) AS first_seen
FROM (SELECT unnest(rules) AS rule, reason_class, quarantined_at FROM t WHERE status = 'open')
GROUP BY rule, reason_class ORDER BY rule
"""


def quarantine_counts(table: Table, lake: Lake) -> list[dict[str, Any]]:
    """Return open rows by rule; a row that broke two rules counts under both."""
    return [{"table": table.key, **row} for row in log.rows(lake.quarantine(table), BY_RULE)]


def quarantine_rows(table: Table, lake: Lake, limit: int, rule: str = "") -> list[dict[str, Any]]:
    """Return the newest quarantined rows, those that broke ``rule`` where one is named."""
    found = log.rows(lake.quarantine(table), "SELECT * FROM t ORDER BY quarantined_at DESC")
    return [row for row in found if not rule or rule in row["rules"]][:limit]
