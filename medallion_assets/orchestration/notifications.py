"""One message for each run that failed, by webhook and by mail: which table, what happened, what to do."""

import smtplib
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

import dagster as dg
import requests
from dagster import DagsterEventType
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from medallion_assets.settings import Settings, current_settings

SECONDS = 10
"""For an answer of the server a message goes to."""
LONGEST = 1000
"""Characters of what happened; the rest is on the run's page."""
AGAIN = Retry(
    connect=2, read=0, status=2, other=0, backoff_factor=1, status_forcelist=(429, 502, 503, 504),
    allowed_methods=None,
)  # fmt: skip
"""Tries again only where the message cannot have been taken, so that it comes once."""


class NotSent(RuntimeError):
    """A message could not be sent; the sensor's tick shows it, without the address, which may be a secret."""


@dataclass(frozen=True)
class Trouble:
    """What failed in a run: the table, or the job where no table did; what happened; what to do."""

    table: str
    what: str
    do: str


@dataclass(frozen=True)
class Message:
    """What is sent about a failed run; ``text`` is the field that chat programs show."""

    text: str
    job: str
    run_id: str
    url: str
    troubles: tuple[Trouble, ...]


def is_configured(settings: Settings) -> bool:
    """Return true where a setting names somebody to tell."""
    return bool(settings.notify_webhook.get_secret_value() or settings.notify_mail_to)


def failure_sensor(steps: Mapping[str, str]) -> dg.SensorDefinition:
    """Return the sensor that sends a message for each failed run of this code location.

    Args:
        steps: The table of each step that fills one.
    """

    @dg.run_failure_sensor(
        name="notify_of_failed_runs",
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends one message for each run that failed, by the webhook and mail of the settings.",
    )
    def notify(context: dg.RunFailureSensorContext) -> None:
        settings = current_settings()
        send(message_of(context, steps, settings.ui_url), settings)

    return notify


def message_of(context: dg.RunFailureSensorContext, steps: Mapping[str, str], ui_url: str = "") -> Message:
    """Return the message about a failed run."""
    run = context.dagster_run
    failures = (*_failed_checks(context), *_failed_steps(context, steps))
    lost = Trouble(
        run.job_name,
        (context.failure_event.message or "the run ended without a word")[:LONGEST],
        "Nothing by hand at first: what it left is taken by the next run, which the sensor requests. "
        "If it happens again, look into the log of the code location.",
    )
    troubles = failures or (lost,)
    url = f"{ui_url.rstrip('/')}/runs/{run.run_id}" if ui_url else ""
    lines = [f"{t.table}: {t.what}\n{t.do}" for t in troubles]
    text = "\n\n".join([*lines, f"Run {run.run_id} of {run.job_name} failed. {url}".strip()])
    return Message(text, run.job_name, run.run_id, url, troubles)


def _failed_checks(context: dg.RunFailureSensorContext) -> Iterator[Trouble]:
    kinds = {DagsterEventType.ASSET_CHECK_EVALUATION}
    for entry in context.instance.all_logs(context.dagster_run.run_id, of_type=kinds):
        assert entry.dagster_event is not None
        check = entry.dagster_event.asset_check_evaluation_data
        if check.passed or not check.blocking or check.severity != dg.AssetCheckSeverity.ERROR:
            continue
        table = "/".join(check.asset_key.path)
        message = f"the check {check.check_name} failed: {check.description or 'see its page'}"
        yield Trouble(table, message[:LONGEST], f"{_doctor(table)} Tables below it wait until it passes.")


def _failed_steps(context: dg.RunFailureSensorContext, steps: Mapping[str, str]) -> Iterator[Trouble]:
    for event in context.get_step_failure_events():
        failure = event.step_failure_data
        description = failure.user_failure_data.description if failure.user_failure_data else None
        error = failure.error.message.strip() if failure.error else "it failed"
        table = steps.get(event.step_key or "")
        if table:
            yield Trouble(table, (description or error)[:LONGEST], _doctor(table))
        elif "DagsterAssetCheckFailedError" not in error:
            job = context.dagster_run.job_name
            yield Trouble(job, (description or error)[:LONGEST], "The run's page has the whole error.")


def _doctor(table: str) -> str:
    return f"Run `medallion doctor {table}`: it names what mends it."


def send(message: Message, settings: Settings) -> None:
    """Send a message by every way the settings name.

    Raises:
        NotSent: One of them did not take it; the others were tried all the same.
    """
    ways: list[tuple[str, Callable[[Message, Settings], None]]] = []
    if settings.notify_webhook.get_secret_value():
        ways.append(("webhook", _post))
    if settings.notify_mail_to:
        ways.append(("mail", _mail))
    wrong = []
    for name, way in ways:
        try:
            way(message, settings)
        except Exception as error:
            wrong.append(f"the {name} was not sent: {_reason(error)}")
    if wrong:
        raise NotSent("; ".join(wrong))


def _reason(error: Exception) -> str:
    """Return the kind of an error and a server's number; its text may hold the address."""
    response = getattr(error, "response", None)
    code = getattr(response, "status_code", None) or getattr(error, "smtp_code", None)
    return f"{type(error).__name__} {code}" if code else type(error).__name__


def _post(message: Message, settings: Settings) -> None:
    with requests.Session() as session:
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=AGAIN))
        url = settings.notify_webhook.get_secret_value()
        session.post(url, json=asdict(message), timeout=SECONDS, allow_redirects=False).raise_for_status()


def _mail(message: Message, settings: Settings) -> None:
    letter, server = EmailMessage(), urlsplit(settings.notify_smtp.get_secret_value())
    first = message.troubles[0]
    letter["Subject"] = " ".join(f"{first.table}: {first.what}".split())[:150]
    letter["From"], letter["To"] = settings.notify_mail_from, settings.notify_mail_to
    letter.set_content(message.text)
    tls = ssl.create_default_context()
    host, port = server.hostname or "localhost", server.port or 0
    plain = server.scheme != "smtps"
    with (
        smtplib.SMTP(host, port, timeout=SECONDS)
        if plain
        else smtplib.SMTP_SSL(host, port, timeout=SECONDS, context=tls)
    ) as line:
        if server.scheme == "smtp+starttls":
            line.starttls(context=tls)
        if server.username:
            line.login(unquote(server.username), unquote(server.password or ""))
        line.send_message(letter)
