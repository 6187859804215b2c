"""Runs: one refresh of a table, a chain of tables in order, streams that are kept up."""
