"""Numbers in JSON text that Arrow's parser would change: those a double rounds, those a decimal cannot hold.

Whole blocks of lines are judged, most by a few passes over all their bytes at once: a pattern over them takes
ten times as long.
"""

import re
from typing import Any

import numpy as np

from medallion_assets.sources.formats.exact_values import is_rounded

LONG_RUN = 16
"""Digits and points; a number with fewer comes back from a double as it was written."""
NUMBERS = re.compile(rb"[-+0-9.eE]{16,}|[-+]?[0-9.]+[eE]-[0-9]{3,}")
MOST_DIGITS = 38
"""Of a decimal."""


def rounded(block: bytes) -> bool:
    """Return true where a number of the block may be more exact than a double."""
    marks = np.frombuffer(block, np.uint8)
    digits = (marks - 48 < 10) | (marks == 46)
    small = (marks[:-1] | 32 == 101) & (marks[1:] == 45)
    three = small[:-3] & digits[2:-2] & digits[3:-1] & digits[4:] if len(marks) > 4 else small[:0]
    found = _has_run(digits, LONG_RUN) or three.any()
    return bool(found) and rounded_on(block)


def rounded_on(line: bytes) -> bool:
    """Return the same of one line, which is too short for passes over all its bytes to pay."""
    return any(is_rounded(number.decode()) for number in NUMBERS.findall(line))


class Wrapping:
    """Numbers that Arrow may take for another one in a decimal column, and says nothing.

    Arrow 26 made 0.98 of 9000000 under DECIMAL(38,38), 0 of 1e-77, and ended the process at 1e-999999999. A
    number that only has more digits than the column's precision is found by validation.
    """

    def __init__(self, scale: int) -> None:
        """Take the largest scale of a schema's decimals."""
        # As many digits before the point, with those of the scale, are more than 128 bits hold.
        self.digits = MOST_DIGITS + 1 - scale
        # A number follows other characters than the text of a string does.
        self.number = re.compile(
            rb"(?:^|[:\[,\s])-?(?:[0-9]+(?:\.[0-9]+)?[eE]|[0-9]{%d})" % self.digits, re.MULTILINE
        )

    def is_in(self, block: bytes) -> bool:
        """Return true where such a number may be in a block of lines."""
        marks = np.frombuffer(block, np.uint8)
        digits = marks - 48 < 10
        powers = digits[:-2] & (marks[1:-1] | 32 == 101) & (digits | (marks == 43) | (marks == 45))[2:]
        found = powers.any() or _has_run(digits, self.digits)
        return bool(found) and bool(self.number.search(block))


def _has_run(marked: Any, length: int) -> bool:
    """Return true where as many bytes in a row are marked."""
    runs, found = marked, 1
    while found < length and runs.any():
        step = min(found, length - found)
        runs, found = runs[:-step] & runs[step:], found + step
    return bool(runs.any())
