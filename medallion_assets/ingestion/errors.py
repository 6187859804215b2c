"""What can be wrong with a source or a file, each with its own name."""


class SourceError(ValueError):
    """A source was declared in a way that cannot work; raised when the declaration loads."""


class UnreadableFile(Exception):
    """A file's bytes cannot be read as what its name says; it stays out, and the ledger says why."""
