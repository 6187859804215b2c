"""One module per file format: bytes to good and malformed records."""
