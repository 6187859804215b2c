"""The corners of issue 18: where a record or a value was once lost, changed, withheld or stuck."""
