"""Files that arrive: seeded, one more, many, all, or without end; with faults on request."""

from medallion_assets.simulators.arrivals import SIMULATORS, land

__all__ = ["SIMULATORS", "land"]
