"""A streaming query over what is new, run to its end, with each micro-batch stamped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from medallion_assets.delta import log, progress
from medallion_assets.delta.commit import Stamp

Write = Callable[[DataFrame, int], None]


def drain(rows: DataFrame, write: Write, checkpoint: Path, name: str, output_mode: str = "append") -> None:
    """Runs the query over all that is available, a call of ``write`` for each micro-batch.

    Raises:
        Exception: Whatever ``write`` raised, itself.
        StreamingQueryException: The query failed outside of it.
    """
    failures: list[Exception] = []

    def guarded(batch: DataFrame, number: int) -> None:
        try:
            write(batch, number)
        except Exception as error:
            # Spark hands on its text only; the caller is to get the error itself.
            failures.append(error)
            raise

    writer = rows.writeStream.foreachBatch(guarded).outputMode(output_mode)
    writer = writer.option("checkpointLocation", str(checkpoint))
    try:
        writer.queryName(name).trigger(availableNow=True).start().awaitTermination()
    except StreamingQueryException as error:
        raise (failures or [error])[0] from None if failures else error


def stamp_of(key: str, path: Path, checkpoint: Path, number: int, run_id: str, feed: bool = False) -> Stamp:
    """Gives a micro-batch's stamp.

    Its note carries the streaming query's id and the generation: how many checkpoints the table had
    before this one. Above 0, records may meet themselves again.
    """
    query = progress.query_id(checkpoint)
    last = log.last_note(path, "generation")
    same = last is None or log.last_note(path, "query") == query
    generation = int(last or 0) + (0 if same else 1)
    place = progress.offset_of(checkpoint, number, feed)
    note: dict[str, Any] = {"run_id": run_id, "table": key, "query": query, "generation": generation,
                            "batch": number}  # fmt: skip
    if not place.partly:
        note["upstream_version"] = place.version
    return Stamp(f"{key}/{query}", number, note)
