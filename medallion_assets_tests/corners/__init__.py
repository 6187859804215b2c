"""The corners: files, names and histories that lost, changed or stopped something once."""
