"""What can be wrong with a table's store; each message names the table and the way out."""


class DamagedCheckpoint(RuntimeError):
    """A file of a checkpoint cannot be read; nothing was read or written."""


class TableBusy(RuntimeError):
    """Another run holds the table; nothing was read or written."""
