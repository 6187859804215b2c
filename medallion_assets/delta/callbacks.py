"""The connections Java opens to call back into Python: one for each streaming query, closed by nobody else.

pyspark leaves each with a Python thread that waits on it for ever. A chain kept up runs thousands of
queries: after 45 rounds of three there were 149 threads, and Python grew by 20 MB a minute.
"""

import contextlib
import socket
from typing import Any

from pyspark.sql import SparkSession


class Calls:
    """Connections by which calls of one query came in."""

    def __init__(self, spark: SparkSession) -> None:
        """Take the session the query runs in."""
        gateway: Any = spark.sparkContext._gateway
        self._client = gateway._gateway_client
        self._found: dict[int, Any] = {}

    def note(self) -> None:
        """Notes the connection the call under way came by; to be asked in the thread of that call."""
        connection = self._client.get_thread_connection()
        if connection is not None:
            self._found[id(connection)] = connection

    def hang_up(self) -> None:
        """Lets the threads end that wait on them."""
        for connection in self._found.values():
            # Not closed here: its own thread holds the stream, and closes both once it reads the end.
            with contextlib.suppress(OSError, AttributeError):
                connection.socket.shutdown(socket.SHUT_RDWR)
