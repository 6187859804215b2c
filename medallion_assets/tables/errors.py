"""What can be wrong with a declaration or a refresh; each message names the table and the way out."""


class DeclarationError(ValueError):
    """A table was declared in a way that cannot work; raised when the declaration loads."""


class ExpectationFailed(RuntimeError):
    """An expectation that says ``fail`` was broken; the batch was not written."""


class RefreshFailed(RuntimeError):
    """A micro-batch could not be written; it was not committed, and the next run takes it again."""


class CheckpointMismatch(RuntimeError):
    """A checkpoint and its table do not belong together; going on would lose or double rows."""


class UnknownTable(ValueError):
    """No pipeline or table of this name is declared."""
