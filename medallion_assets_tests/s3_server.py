"""A server that speaks S3's protocol, as a process: SeaweedFS where ``weed`` is installed, else moto."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

BUCKET = "bucket"
KEYS = {"AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test"}  # fmt: skip
IDENTITY = {"identities": [{"name": "test", "actions": ["Admin", "Read", "List", "Write", "Tagging"],
                            "credentials": [{"accessKey": "test", "secretKey": "test"}]}]}  # fmt: skip
PORTS = tuple(f"{part}.port{of}" for part in ("master", "volume", "filer", "s3") for of in ("", ".grpc"))


class Server(NamedTuple):
    """How a server is started, its port, and whether it has its objects again after it was killed."""

    command: list[str]
    port: int
    keeps_objects: bool

    @property
    def address(self):
        """The address of its S3."""
        return f"http://127.0.0.1:{self.port}"


def s3_server(folder):
    """Return a server that keeps its objects in an empty folder; moto keeps them in memory."""
    weed = shutil.which("weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if not weed:
        return moto_server()
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    (folder / "identity.json").write_text(json.dumps(IDENTITY))
    (folder / "objects").mkdir()
    command = [weed, "server", "-s3", f"-dir={folder / 'objects'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    command += [f"-{name}={port}" for name, port in ports.items()]
    command += [f"-s3.config={folder / 'identity.json'}", "-volume.max=50", "-master.volumeSizeLimitMB=64"]
    # By default catalogs of tables have fixed ports, which a second server would miss.
    return Server([*command, "-s3.port.iceberg=0", "-s3.port.lance=0"], ports["s3.port"], True)


def moto_server():
    """Return a server of moto, which has queues (SQS), too."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    return Server(command, port, False)


@contextmanager
def running_s3():
    """Run a server in a folder of its own, and give its address once it has the bucket."""
    with tempfile.TemporaryDirectory() as folder:
        server = s3_server(Path(folder))
        with subprocess.Popen(
            server.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                make_bucket(server.address)
                yield server.address
            finally:
                process.kill()


def make_bucket(address, name=BUCKET):
    """Create a bucket, once the store answers."""
    import boto3
    from botocore.exceptions import ClientError, EndpointConnectionError

    client, until = boto3.client("s3", endpoint_url=address), time.monotonic() + 60
    while True:
        try:
            return client.create_bucket(Bucket=name)
        except (EndpointConnectionError, ClientError):
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def free_ports(number):
    """Return ports nobody listens on."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]
