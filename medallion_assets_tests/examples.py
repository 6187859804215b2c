"""What a test tries in each run, and what in ``make thorough`` only."""

import os
from typing import Any

import pytest
from hypothesis import settings

FACTOR = int(os.environ.get("MEDALLION_EXAMPLES", "1"))


def seldom(*values: Any) -> Any:
    """Return a test's parameters as ones that only ``make thorough`` tries: relatives of one in each run."""
    return pytest.param(*values, marks=pytest.mark.thorough)


def examples(few: int, **others: Any) -> settings:
    """Return a property test's settings: ``few`` examples, times the factor in ``MEDALLION_EXAMPLES``."""
    return settings(max_examples=few * FACTOR, deadline=None, **others)
