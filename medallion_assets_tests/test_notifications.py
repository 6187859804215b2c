"""A failed run is told of once by webhook and once by mail, with the table, what happened and what to do."""

import asyncio
import json
import threading
from contextlib import contextmanager
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, HTTPServer

import dagster as dg
import pytest
from pydantic import ValidationError

from medallion_assets import Pipeline, build_definitions
from medallion_assets.orchestration import assets as translate
from medallion_assets.orchestration.notifications import Message, NotSent, Trouble, message_of, send
from medallion_assets.quality.verdicts import Verdict
from medallion_assets.runs.run import Refresh
from medallion_assets.settings import Settings

SENSOR = "notify_of_failed_runs"
SECRET = "t0ken-of-the-webhook"


def shop():
    pipeline = Pipeline("shop")

    @pipeline.bronze()
    def orders(files=pipeline.landing("orders", format="json", schema="id INT")):  # noqa: B008
        """One row per order."""
        return files

    return pipeline


@contextmanager
def webhook(*answers):
    """A real server of HTTP that gives these answers in turn, then 200; yields its address and what came."""
    came, left = [], list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            came.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(left.pop(0) if left else 200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/{SECRET}", came
        finally:
            server.shutdown()


@contextmanager
def mailbox():
    """A real server of SMTP; yields its address and the letters that came."""
    controllers = pytest.importorskip("aiosmtpd.controller", reason="aiosmtpd is not installed")
    letters = []

    class Box:
        async def handle_DATA(self, server, session, envelope):  # noqa: N802
            letters.append((envelope.rcpt_tos, message_from_bytes(envelope.content, policy=policy.default)))
            return "250 taken"

    # Its own start waits for a connection to a fixed port; port 0 is asked for after it stands.
    server = controllers.UnthreadedController(Box(), "127.0.0.1", 0, loop=asyncio.new_event_loop())
    server.begin()
    port = server.server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=server.loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"smtp://127.0.0.1:{port}", letters
    finally:
        server.loop.call_soon_threadsafe(server.loop.stop)
        thread.join(10)
        server.end()
        server.loop.close()


@pytest.fixture
def told(lake, monkeypatch):
    """Runs the shop's chain so that it fails in a way, and gives what the sensor does at its next ticks."""

    def run(breaks, **settings):
        for name, value in settings.items():
            monkeypatch.setenv(f"MEDALLION_{name.upper()}", value)

        def refresh(table, *_):
            if breaks == "step":
                raise ValueError("the table is of tomorrow")
            return Refresh(table.key, "nothing new", (), None, 0.0, "run")

        def verdict(table, name, _):
            return Verdict(name, breaks != "check" or name != "conservation", True, "a row is missing", {})

        monkeypatch.setattr(translate, "refresh", refresh)
        monkeypatch.setattr(translate, "_verdict", verdict)
        defs = build_definitions([shop()])
        sensor, cursor, errors = defs.resolve_sensor_def(SENSOR), None, []
        with dg.DagsterInstance.ephemeral() as instance:
            for number in range(4):
                context = dg.build_sensor_context(instance=instance, cursor=cursor, definitions=defs)
                result = sensor.evaluate_tick(context)
                cursor = result.cursor
                errors += [r.error for r in result.dagster_run_reactions or () if r.error]
                if number == 0:
                    job = defs.resolve_job_def("shop_chain")
                    done = job.execute_in_process(instance=instance, raise_on_error=False)
                    assert done.success == (breaks == "nothing")
        return done.run_id, errors

    return run


def test_a_failed_blocking_check_is_one_post_and_one_mail_that_say_what_to_do(told):
    with webhook() as (address, posts), mailbox() as (server, letters):
        run_id, errors = told(
            "check", notify_webhook=address, notify_mail_to="a@shop.test, b@shop.test",
            notify_mail_from="lake@shop.test", notify_smtp=server, ui_url="https://lake.shop.test/",
        )  # fmt: skip
    assert errors == []
    (post,), ((to, letter),) = posts, letters
    (trouble,) = post["troubles"]
    assert trouble["table"] == "shop/bronze/orders"
    assert trouble["what"] == "the check conservation failed: a row is missing"
    assert "medallion doctor shop/bronze/orders" in trouble["do"]
    assert (post["run_id"], post["url"]) == (run_id, f"https://lake.shop.test/runs/{run_id}")
    assert to == ["a@shop.test", "b@shop.test"]
    assert letter["Subject"] == "shop/bronze/orders: the check conservation failed: a row is missing"
    assert letter.get_content().split() == post["text"].split()


def test_a_failed_step_is_one_message_with_its_table_and_error(told):
    with webhook() as (address, posts):
        told("step", notify_webhook=address)
    ((trouble,),) = [post["troubles"] for post in posts]
    assert trouble["table"] == "shop/bronze/orders"
    assert "the table is of tomorrow" in trouble["what"]
    assert "medallion doctor" in trouble["do"]


def test_a_run_that_succeeds_is_not_told_of(told):
    with webhook() as (address, posts):
        told("nothing", notify_webhook=address)
    assert posts == []


def test_without_a_setting_there_is_no_sensor_that_tells(lake):
    assert SENSOR not in [sensor.name for sensor in build_definitions([shop()]).sensors]


def test_a_server_that_is_busy_is_asked_again_and_one_that_refuses_is_not(told):
    with webhook(503) as (address, posts):
        _, errors = told("step", notify_webhook=address)
    assert (len(posts), errors) == (2, [])
    with webhook(404) as (address, posts):
        _, (error,) = told("step", notify_webhook=address)
    assert len(posts) == 1
    assert "the webhook was not sent: HTTPError 404" in error.message


def test_a_way_that_fails_keeps_no_other_from_being_tried_and_its_address_is_not_told(told):
    with mailbox() as (server, letters):
        _, (error,) = told(
            "step", notify_webhook=f"http://127.0.0.1:1/{SECRET}", notify_mail_to="a@shop.test",
            notify_mail_from="lake@shop.test", notify_smtp=server,
        )  # fmt: skip
    assert len(letters) == 1
    assert "the webhook was not sent: ConnectionError" in error.message
    assert SECRET not in str(error)


def test_a_run_whose_process_died_is_told_of_by_its_job():
    with dg.DagsterInstance.ephemeral() as instance:
        run = dg.DagsterRun("shop_chain", status=dg.DagsterRunStatus.STARTED)
        instance.add_run(run)
        event = instance.report_run_failed(run, "the server that started it is gone")
        context = dg.build_run_status_sensor_context(SENSOR, event, instance, run).for_run_failure()
        (trouble,) = message_of(context, {}).troubles
    assert (trouble.table, trouble.what) == ("shop_chain", "the server that started it is gone")
    assert "next run" in trouble.do


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"notify_webhook": f"ftp://{SECRET}"}, "no address that begins with https://, http://"),
        ({"notify_smtp": f"smtp://me:{SECRET}@mail.test"}, "in the clear"),
        ({"notify_mail_to": "a@shop.test"}, "needs notify_mail_from"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_without_its_secret(settings, words):
    with pytest.raises(ValidationError, match=words) as refused:
        Settings(**settings)
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(Settings(notify_webhook=f"https://{SECRET}"))


def test_a_mail_is_not_sent_in_the_clear_where_tls_is_asked_for():
    with mailbox() as (server, letters):
        message = Message("text", "job", "run", "", (Trouble("table", "what", "do"),))
        settings = Settings(
            notify_mail_to="a@shop.test", notify_mail_from="lake@shop.test",
            notify_smtp=server.replace("smtp:", "smtp+starttls:"),
        )  # fmt: skip
        with pytest.raises(NotSent, match="the mail was not sent"):
            send(message, settings)
    assert letters == []
