"""List a bucket of S3 with keys that ``obstore`` does not take: it fails on the whole page of such a key.

They have a control character, or a part that is empty, ``.`` or ``..``. boto3 lists them.
"""

import os
import re
from collections.abc import Iterator
from typing import Any

from medallion_assets.storage.port import FILE, FOLDER, UNNAMED, StorageUnreachable, Stored, microseconds

ODD = re.compile(r"[\x00-\x1f\x7f]|(?:^|/)\.{0,2}(?:/|$)")
"""What no key that can be read has."""

REFUSED = ("invalid path", "parse path", "parsing Path")
"""Words of the library's message about such a key."""


class OddKey(StorageUnreachable):
    """A key that cannot be read, in a store whose other keys cannot be listed without it."""

    def __init__(self, folder: str, why: str) -> None:
        """Name the folder and the key."""
        what = why.encode("unicode_escape").decode()
        super().__init__(
            f"{folder} cannot be listed, since a key there has a name that cannot be read: {what}. Nothing "
            "was read or changed, and nothing is lost: rename or delete that object and run again; in S3, "
            "`pip install 'medallion-assets[events]'` lists the others, and refuses that one by name."
        )


def is_odd(error: BaseException) -> bool:
    """Return true where the library failed on the name of a key."""
    return any(words in str(error) for words in REFUSED)


def listed(bucket: str, prefix: str, error: OddKey, after: str = "", deep: bool = False) -> list[Stored]:
    """Return what has a prefix, as ``Storage.list`` or ``list_after`` do; odd keys are of kind ``UNNAMED``.

    Args:
        bucket: The address of the bucket.
        prefix: The folder's key, with a slash at its end, or empty.
        error: What is raised where it cannot be listed.
        after: The key that the listing begins after.
        deep: True for objects at any depth, false for direct ones and folders.

    Raises:
        OddKey: The bucket is not in S3, or boto3 is not installed.
    """
    folder = f"{bucket}/{prefix}"
    if not bucket.startswith("s3://"):
        raise error
    try:
        pages = list(
            _pages(bucket, {"Prefix": prefix, "StartAfter": after} | ({} if deep else {"Delimiter": "/"}))
        )
    except ImportError:
        raise error from None
    except Exception as failed:
        # The library's errors have no common class that could be named before it is imported.
        raise StorageUnreachable(
            f"{folder} could not be listed: {failed}. Nothing was read or changed."
        ) from failed
    inside = [_folder(bucket, each["Prefix"]) for page in pages for each in page.get("CommonPrefixes", ())]
    files = [
        _file(bucket, each) for page in pages for each in page.get("Contents", ()) if each["Key"] != prefix
    ]
    return inside + files


def _pages(bucket: str, asked: dict[str, str]) -> Iterator[dict[str, Any]]:
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config

    own = Config(signature_version=UNSIGNED) if os.environ.get("AWS_SKIP_SIGNATURE") == "true" else None
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    client = boto3.session.Session().client("s3", region_name=region, config=own)
    yield from client.get_paginator("list_objects_v2").paginate(Bucket=bucket.removeprefix("s3://"), **asked)


def _folder(bucket: str, prefix: str) -> Stored:
    key = prefix[:-1]
    kind = UNNAMED if ODD.search(key) or not key else FOLDER
    return _stored(bucket, prefix if kind == UNNAMED else key, kind)


def _file(bucket: str, facts: dict[str, Any]) -> Stored:
    made = _stored(bucket, facts["Key"], UNNAMED if ODD.search(facts["Key"]) else FILE)
    return made._replace(
        size=facts["Size"], modified_at=microseconds(facts["LastModified"]), tag=facts.get("ETag", "")
    )


def _stored(bucket: str, key: str, kind: str) -> Stored:
    # Never asked for by its name, which no terminal is to interpret.
    shown = key.encode("unicode_escape").decode() if kind == UNNAMED else key
    return Stored(f"{bucket}/{shown}", shown.rstrip("/").rsplit("/", 1)[-1], kind)
