"""What a person says of a table, checked as it loads: frozen records, and nothing that runs."""
