"""Numbers as texts, read exactly: what a type would round is no number of it."""

from decimal import Context, Decimal, Inexact, InvalidOperation

import numpy as np

SURE_DIGITS = 15
"""A decimal number of as many digits comes back from a double as it went in."""

MOST_DIGITS = 800
"""The longest exact form of a double has 767 digits."""

LONGEST_WHOLE = 20
DECIMAL_MARKS = frozenset("0123456789+-.eE")


class Misfit(Exception):
    """A value is not one of its column's type."""


def whole_number(written: str, bits: int) -> int:
    """Return a whole number, which has no fraction and no exponent.

    Raises:
        Misfit: It is none, or has more bits.
    """
    half = 1 << (bits - 1)
    if len(written) > LONGEST_WHOLE or not written.lstrip("-").isdigit():
        raise Misfit
    if not -half <= int(written) < half:
        raise Misfit
    return int(written)


def floating_number(written: str, single: bool) -> float:
    """Return the double or single a JSON number is, where it has as many digits of it as the text has.

    Raises:
        Misfit: Written with as many digits, the nearest double (or single) is another number.
    """
    found = float(written)
    if single:
        with np.errstate(over="ignore", under="ignore"):
            found = float(np.float32(found))
    mantissa = written.lower().partition("e")[0].lstrip("-").replace(".", "").strip("0")
    if not mantissa:
        return found
    sure = not single and 1e-290 < abs(found) < 1e300 and len(mantissa) <= SURE_DIGITS
    if not sure and not _is_written(found, written, len(mantissa)):
        raise Misfit
    return found


def _is_written(found: float, written: str, digits: int) -> bool:
    """Return true where a number written with that many digits is the text."""
    if found in (0, float("inf"), float("-inf")) or digits > MOST_DIGITS:
        return False
    exact = Decimal(written)
    return Context(prec=digits).create_decimal(Decimal(found)) == exact


def decimal_number(written: str, precision: int, scale: int) -> Decimal:
    """Return a decimal of so many digits, some of them behind the point.

    Raises:
        Misfit: It is no number, or would be rounded, or is too large.
    """
    if not DECIMAL_MARKS.issuperset(written):
        raise Misfit
    exactly = Context(prec=precision, traps=[Inexact, InvalidOperation])
    try:
        return exactly.quantize(Decimal(written), Decimal(1).scaleb(-scale))
    except (Inexact, InvalidOperation):
        raise Misfit from None
