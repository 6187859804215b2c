"""How many examples a property test draws: a few in each run, many in ``make thorough``."""

import os
from typing import Any

from hypothesis import settings

FACTOR = int(os.environ.get("MEDALLION_EXAMPLES", "1"))


def examples(few: int, **others: Any) -> settings:
    """Return a property test's settings: ``few`` examples, times the factor in ``MEDALLION_EXAMPLES``."""
    return settings(max_examples=few * FACTOR, deadline=None, **others)
