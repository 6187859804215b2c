"""Start runs as Dagster's default launcher does, and check whether the process of a run still exists.

Dagster's own launcher has no such check: after a power cut, or an out-of-memory kill of the whole service, a
run stays in status "started", its pipeline's sensor waits for it, and its table's slot is never released.
"""

import socket
from typing import Any

import dagster as dg
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus
from dagster._grpc.types import CanCancelExecutionRequest, CanCancelExecutionResult
from dagster._serdes import deserialize_value

SECONDS = 10
"""For an answer of the server that runs the process; one that is busy is taken to be alive."""


class WatchedRunLauncher(dg.DefaultRunLauncher):
    """Dagster's default launcher, whose runs the monitoring daemon ends once their process is gone."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """True: the daemon is to ask."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return ``FAILED`` where the server that started the run is gone, or no longer has it."""
        client: Any = self._get_grpc_client_for_termination(run.run_id)  # type: ignore[no-untyped-call]
        if client is None:
            # It has ended, or a person's own process runs it.
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        if not _answers(client):
            return CheckRunHealthResult(WorkerStatus.FAILED, "the server that started it is gone")
        if not _has(client, run.run_id):
            return CheckRunHealthResult(WorkerStatus.FAILED, "the server no longer runs it")
        return CheckRunHealthResult(WorkerStatus.RUNNING)


def _answers(client: Any) -> bool:
    """Return true where something listens: by the system, since a server may be too busy to say so itself."""
    kind = socket.AF_UNIX if client.socket else socket.AF_INET
    with socket.socket(kind, socket.SOCK_STREAM) as line:
        line.settimeout(SECONDS)
        try:
            line.connect(client.socket or (client.host, client.port))
        except TimeoutError:
            return True
        except OSError:
            return False
    return True


def _has(client: Any, run_id: str) -> bool:
    try:
        said = client.can_cancel_execution(CanCancelExecutionRequest(run_id=run_id), timeout=SECONDS)
    except Exception:
        return True
    return deserialize_value(said, CanCancelExecutionResult).can_cancel
