"""Simulated landing files for the reference pipelines, with faults on request."""

from medallion_assets.simulators.arrivals import SIMULATORS, land

__all__ = ["SIMULATORS", "land"]
