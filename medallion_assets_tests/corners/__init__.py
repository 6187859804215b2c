"""The corners: where a record or a value once got lost, changed, withheld or stuck."""
