"""Replay of quarantined rows: chosen, fixed, judged by today's rules, written once."""
