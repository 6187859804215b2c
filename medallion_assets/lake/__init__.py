"""What stands of a table: its paths, the versions and checkpoints it has come to, and who may write it."""
