"""Run a streaming query over new rows to its end, and close the connections that Java opened for it.

pyspark leaves a Python thread waiting for ever on each connection. A process that keeps tables up runs
thousands of queries: after 45 rounds of three it had 149 threads, and Python grew by 20 MB a minute.
"""

import contextlib
import socket
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress


class Calls:
    """The connections on which Java called Python for one query."""

    def __init__(self, spark: SparkSession) -> None:
        """Take the session the query runs in."""
        gateway: Any = spark.sparkContext._gateway
        self._client = gateway._gateway_client
        self._found: dict[int, Any] = {}

    def note(self) -> None:
        """Record the connection of the current call; must be called in the thread of that call."""
        connection = self._client.get_thread_connection()
        if connection is not None:
            self._found[id(connection)] = connection

    def hang_up(self) -> None:
        """Shut the connections down, so that the threads that wait on them end."""
        for connection in self._found.values():
            # Not closed here: its own thread holds the stream, and closes both once it reads the end.
            with contextlib.suppress(OSError, AttributeError):
                connection.socket.shutdown(socket.SHUT_RDWR)


Write = Callable[[DataFrame, int], None]
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
"""Adds a micro-batch to each run; needed only where windows are written when they close."""

Trigger = Literal["availableNow", "once"]


@dataclass(frozen=True)
class State:
    """The state metrics of a stateful query after a micro-batch.

    Attributes:
        watermark: ISO 8601; groups before it are closed. Empty where the query has none.
        groups: Groups held: open windows, or all groups where nothing closes them.
        bytes: Memory they take.
    """

    watermark: str = ""
    groups: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Query:
    """How a streaming query runs.

    Attributes:
        checkpoint: Its checkpoint.
        name: Its name.
        output_mode: ``append``, ``update`` or ``complete``.
        trigger: ``availableNow`` cuts what there is to the source's limits, ``once`` takes it in one batch.
        closes_windows: A batch without rows follows where the last one moved the watermark, and gives the
            windows it closed; otherwise they wait for the next rows. Not with ``once``.
    """

    checkpoint: Path
    name: str
    output_mode: str = "append"
    trigger: Trigger = "availableNow"
    closes_windows: bool = False


def run_streaming_query(rows: DataFrame, write: Write, query: Query) -> dict[int, State]:
    """Run the query over all that is available, a call of ``write`` for each micro-batch.

    Args:
        rows: The streaming frame.
        write: Takes a micro-batch and its number.
        query: How it runs.

    Returns:
        By micro-batch, the state a stateful query was left with.

    Raises:
        Exception: Whatever ``write`` raised, itself.
        StreamingQueryException: The query failed outside of it.
    """
    failures: list[BaseException] = []
    calls = Calls(rows.sparkSession)
    rows.sparkSession.conf.set(NO_DATA, str(query.closes_windows).lower())
    writer = rows.writeStream.foreachBatch(guarded(write, calls, failures)).outputMode(query.output_mode)
    writer = writer.option("checkpointLocation", str(query.checkpoint)).queryName(query.name)
    try:
        running = writer.trigger(**{query.trigger: True}).start()
        running.awaitTermination()
    except StreamingQueryException as error:
        raise (failures or [error])[0] from None if failures else error
    finally:
        calls.hang_up()
    return {p.batchId: _state(p) for p in running.recentProgress if p.stateOperators}


def guarded(write: Write, calls: Calls, failures: list[BaseException]) -> Write:
    """Return the function that Java calls for a micro-batch; its error is kept, and raised to Java."""
    # Java calls back in a thread of its own, which is to share what was read of logs.
    context = copy_context()

    def guarded(batch: DataFrame, number: int) -> None:
        calls.note()
        try:
            context.run(write, batch, number)
        except Exception as error:
            # Spark hands on its text only; the caller is to get the error itself.
            failures.append(error)
            raise
        except BaseException as error:
            # Any other would end the thread Java called, and Java would wait for its answer for ever.
            failures.append(error)
            raise RuntimeError(f"the micro-batch was ended by {type(error).__name__}") from error

    return guarded


def _state(progress: StreamingQueryProgress) -> State:
    operators = progress.stateOperators
    return State(
        progress.eventTime.get("watermark", ""),
        sum(o.numRowsTotal for o in operators),
        sum(o.memoryUsedBytes for o in operators),
    )
