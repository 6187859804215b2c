"""File events: the objects that S3 names in the notifications it sends to an SQS queue.

A message says where to look and nothing else: size, time and contents are those the store has now, so that a
message that comes twice, late or in another order changes nothing.
"""

import json
import logging
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote_plus, urlsplit

from medallion_assets.sources.errors import BatchRefused, first_line

AT_ONCE = 8
"""Requests to the queue side by side."""

IN_A_REQUEST = 10
"""Messages that SQS gives or takes in one request."""

MOST_MESSAGES = 100_000
"""Messages of one look; SQS gives out at most 120,000 that are not acknowledged."""


class QueueUnreachable(BatchRefused):
    """The queue of a source's file events cannot be read."""

    def __init__(self, queue: str, why: str) -> None:
        """Name the queue."""
        super().__init__(
            f"the queue {queue} of file events cannot be used: {why}. Nothing was read or changed, and no "
            "event is lost: correct file_events, the credentials or the network, and run again; without "
            "file_events every look lists the source."
        )


class Message(NamedTuple):
    """One message of a queue: its id, the receipt that acknowledges it, and its text."""

    id: str
    receipt: str
    body: str


def objects_of(body: str) -> list[str]:
    """Return the addresses of the objects that a message names, none for S3's test message.

    Args:
        body: A notification of S3, as it is or in the envelope of an SNS topic, or an event of EventBridge.

    Raises:
        ValueError: It is none.
    """
    try:
        said = json.loads(body)
        if said.get("Type") == "Notification" and "Message" in said:
            said = json.loads(said["Message"])
        if said.get("Event") == "s3:TestEvent":
            return []
        if said.get("source") == "aws.s3":
            # EventBridge gives the key as it is.
            return [_address(said["detail"], said["detail"]["object"]["key"])]
        # S3 encodes keys as in a form; one that is no UTF-8 is no key of it.
        named = [record["s3"] for record in said["Records"]]
        return [_address(each, unquote_plus(each["object"]["key"], errors="strict")) for each in named]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no notification of S3: {type(error).__name__}: {first_line(error)}") from error


def _address(said: dict[str, Any], key: Any) -> str:
    bucket = said["bucket"]["name"]
    if not (isinstance(bucket, str) and isinstance(key, str) and bucket and key):
        raise ValueError("its bucket or key is empty or no text")
    return f"s3://{bucket}/{key}"


class Queue:
    """An SQS queue of file events."""

    def __init__(self, address: str) -> None:
        """Take the queue's URL; credentials and region come from the environment, as those of S3."""
        self.address = address

    def waiting(self) -> int:
        """Return about how many messages wait in the queue."""
        name = "ApproximateNumberOfMessages"
        found = self._ask("get_queue_attributes", AttributeNames=[name])
        return int(found["Attributes"][name])

    def receive(self) -> list[Message]:
        """Return the messages that wait, each once; those that are not acknowledged come again later."""
        found: dict[str, Message] = {}
        with ThreadPoolExecutor(AT_ONCE) as threads:
            while len(found) < MOST_MESSAGES:
                before = len(found)
                for messages in threads.map(lambda _: self._some(), range(AT_ONCE if found else 1)):
                    found |= {message.id: message for message in messages}
                if len(found) == before:
                    break
        return [*found.values()]

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Delete messages from the queue. One that stays comes again, and changes nothing."""
        left = iter(messages)
        parts = iter(lambda: [*islice(left, IN_A_REQUEST)], [])
        try:
            with ThreadPoolExecutor(AT_ONCE) as threads:
                list(threads.map(self._delete, parts))
        except QueueUnreachable as problem:
            logging.getLogger(__name__).warning("file events come again: %s", problem)

    def _some(self) -> list[Message]:
        reply = self._ask("receive_message", MaxNumberOfMessages=IN_A_REQUEST)
        found = reply.get("Messages", [])
        return [Message(m["MessageId"], m["ReceiptHandle"], m["Body"]) for m in found]

    def _delete(self, messages: list[Message]) -> None:
        receipts = [{"Id": str(n), "ReceiptHandle": m.receipt} for n, m in enumerate(messages)]
        self._ask("delete_message_batch", Entries=receipts)

    def _ask(self, method: str, **asked: Any) -> dict[str, Any]:
        try:
            client = _client(self.address)
            return dict(getattr(client, method)(QueueUrl=self.address, **asked))
        except ImportError as error:
            why = "boto3 is not installed; pip install 'medallion-assets[events]' does it"
            raise QueueUnreachable(self.address, why) from error
        except Exception as error:
            # The library's errors have no common class that could be named before it is imported.
            raise QueueUnreachable(self.address, first_line(error)) from error


@cache
def _client(address: str) -> Any:
    # The library takes 100 ms to import, and few sources have a queue.
    import boto3
    from botocore.config import Config

    parts = urlsplit(address)
    of_host = re.match(r"sqs\.([a-z0-9-]+)\.", parts.netloc)
    region = of_host[1] if of_host else os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return boto3.session.Session().client(
        "sqs", region_name=region or "us-east-1", endpoint_url=f"{parts.scheme}://{parts.netloc}",
        config=Config(max_pool_connections=AT_ONCE),
    )  # fmt: skip
