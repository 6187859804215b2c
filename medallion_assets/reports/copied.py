"""A COPY INTO's result as a row to print."""

from dataclasses import asdict
from typing import Any

from medallion_assets.sources import CopyResult


def result_row(result: CopyResult) -> dict[str, Any]:
    """Return COPY INTO's result columns; with VALIDATE what it found instead, without the preview."""
    row: dict[str, Any] = {
        "num_affected_rows": result.num_affected_rows,
        "num_inserted_rows": result.num_inserted_rows,
        "num_skipped_corrupt_files": result.num_skipped_corrupt_files,
    }
    if result.validation:
        found = asdict(result.validation)
        return row | {name: found[name] for name in ("files", "good", "bad", "reasons", "columns")}
    return row | {"quarantined": result.load.rows_quarantined if result.load else 0}
