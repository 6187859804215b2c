"""The fault matrix: faults injected for real, each with what must hold afterwards."""
