"""A proxy before a store that speaks S3's protocol, which records changes and kills or stops a run at one.

    python -m medallion_assets_tests.crash.s3_proxy FOLDER

A process of its own, which ends with its input: ``deltalake`` holds Python's lock while it asks a store. Its
first line has the addresses of the proxy and of the store (``s3_server``). Files of the folder say what it
does:

- ``recorded.jsonl``: each change becomes a line of it, the request and all that the bucket holds after it, by
  the SHA-256 that names a file of ``contents``.
- ``trap.json``: the first change that matches its ``pattern`` finds the process group ``group`` killed
  (``does``: ``kill before`` or ``kill after`` it is made) or stopped. A stopped group's request is held until
  ``trap.go`` is there; then it is made, and the group goes on. ``trap.sprung`` says that it was met.
"""

import contextlib
import hashlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import unescape

from medallion_assets.storage import objects
from medallion_assets_tests.s3_server import BUCKET, KEYS, running_s3

PASSED_ON = ("Content-Length", "Transfer-Encoding", "Connection", "Expect")


class Request:
    """A request that changes objects.

    Attributes:
        method: ``PUT``, ``POST`` or ``DELETE``.
        keys: The objects it changes, each with its bucket; none for a part of an upload.
    """

    def __init__(self, method, target, body):
        parts = urlsplit(target)
        self.method, path, asked = method, unquote(parts.path).lstrip("/"), parse_qs(parts.query, True)
        if method == "POST" and "delete" in asked:
            named = re.findall(r"<Key>(.*?)</Key>", body.decode())
            self.keys = [f"{path.strip('/')}/{unescape(key)}" for key in named]
        else:
            is_part = "partNumber" in asked or "uploads" in asked
            self.keys = [] if is_part or (method == "DELETE" and "uploadId" in asked) else [path]

    def __str__(self):
        return f"{self.method} {' '.join(self.keys)}"


@contextmanager
def proxy(store, watch):
    """Run a proxy before a store, and give its address.

    Args:
        store: The address of the store, ``http://host:port``.
        watch: Called with a ``Request`` and a function that has the store do it.
    """
    host, here = store.removeprefix("http://"), threading.local()

    def forwarded(method, target, headers, body):
        for fresh in (False, True):
            if fresh or not getattr(here, "store", None):
                here.store = http.client.HTTPConnection(host, timeout=60)
            try:
                here.store.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
                for name, value in headers:
                    here.store.putheader(name, value)
                here.store.endheaders(body)
                answer = here.store.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            except (http.client.HTTPException, ConnectionError):
                # A connection that was kept too long; its store took nothing from it.
                here.store.close()
                if fresh:
                    raise
        raise AssertionError

    class Handler(BaseHTTPRequestHandler):
        protocol_version, wbufsize = "HTTP/1.1", -1

        def pass_on(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = [(n, v) for n, v in self.headers.items() if n not in PASSED_ON]
            headers.append(("Content-Length", str(len(body))))

            def do():
                return forwarded(self.command, self.path, headers, body)

            if self.command in ("GET", "HEAD"):
                status, told, content = do()
            else:
                status, told, content = watch(Request(self.command, self.path, body), do)
            self.send_response_only(status)
            for name, value in told:
                if name not in PASSED_ON:
                    self.send_header(name, value)
            length = dict(told).get("Content-Length", "0") if self.command == "HEAD" else len(content)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(content)
            self.wfile.flush()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on  # noqa: N815

        def handle_expect_100(self):
            going_on = super().handle_expect_100()
            self.wfile.flush()
            return going_on

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads, request_queue_size = True, 128

        def handle_error(self, *_):
            """Say nothing: a client that was killed leaves its connection half way."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Watch:
    """What the proxy does at each change, as the files of a folder tell it."""

    def __init__(self, folder, store):
        import boto3

        self.folder, self.holds, self.lock = folder, {}, threading.Lock()
        self.client = boto3.client("s3", endpoint_url=store)
        (folder / "contents").mkdir(exist_ok=True)

    def __call__(self, request, do):
        """Have a request done, and record it or spring the trap."""
        self.spring(request, do)
        with self.lock:
            answer = do()
            if (self.folder / "recorded.jsonl").exists() and request.keys and answer[0] < 300:
                self.record(request)
        return answer

    def spring(self, request, do):
        """Kill or stop the process that a trap is set for, where this is the request."""
        trap = self.folder / "trap.json"
        with self.lock:
            asked = json.loads(trap.read_text()) if trap.exists() else {}
            if not asked or not re.search(asked["pattern"], str(request)):
                return
            trap.rename(self.folder / "trap.sprung")
        if asked["does"] == "stop":
            os.killpg(asked["group"], signal.SIGSTOP)
            until(lambda: (self.folder / "trap.go").exists())
            # It goes on once its request was answered; another process has gone on long before.
            threading.Timer(1, os.killpg, (asked["group"], signal.SIGCONT)).start()
            return
        if asked["does"] == "kill after":
            do()
        os.killpg(asked["group"], signal.SIGKILL)
        raise ConnectionError("the client was killed")

    def record(self, request):
        """Write down what the bucket holds now."""
        for key in (key.removeprefix(f"{BUCKET}/") for key in request.keys):
            self.holds.pop(key, None)
            with contextlib.suppress(self.client.exceptions.NoSuchKey):
                found = self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
                self.holds[key] = hashlib.sha256(found).hexdigest()
                (self.folder / "contents" / self.holds[key]).write_bytes(found)
        with (self.folder / "recorded.jsonl").open("a") as lines:
            lines.write(json.dumps([str(request), self.holds]) + "\n")


def until(holds, seconds=240):
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.05)


@contextmanager
def watched_store(folder):
    """Run the process, and give the addresses of proxy and store; the environment names the proxy."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "medallion_assets_tests.crash.s3_proxy", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        addresses, before = process.stdout.readline().split(), dict(os.environ)
        os.environ |= {**KEYS, "AWS_ENDPOINT_URL": addresses[0]}
        # Of another store that had this bucket.
        objects._object_storage.cache_clear()
        try:
            yield addresses
        finally:
            for name in (*KEYS, "AWS_ENDPOINT_URL"):
                os.environ.pop(name)
                os.environ |= {k: v for k, v in before.items() if k == name}
            process.stdin.close()
            process.wait(30)


def main(folder):
    os.environ |= KEYS
    with running_s3() as store, proxy(store, Watch(folder, store)) as address:
        print(address, store, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
