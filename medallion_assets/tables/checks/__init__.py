"""What a table is judged by after a run, from logs and batch records alone; never a write to its rows."""
