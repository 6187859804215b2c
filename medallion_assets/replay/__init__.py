"""Quarantined rows taken again: chosen, mended, judged by today's rules, written once."""
