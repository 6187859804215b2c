"""Spans of time as people write them."""

import re

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
INTERVAL = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)")


def seconds_of(interval: str) -> float:
    """Return an interval such as ``10s``, ``500ms``, ``1m`` or ``1 day`` in seconds.

    Raises:
        ValueError: It is no interval.
    """
    found = INTERVAL.fullmatch(interval.strip())
    if not found:
        raise ValueError(f"{interval!r} is no interval; say it like 10s, 500ms, 1m or 1 day")
    return float(found[1]) * (SECONDS.get(found[2]) or SECONDS[found[2][0]])
