"""The quarantine: its entries, their changes, repaired rows, and rows a query fails on."""
