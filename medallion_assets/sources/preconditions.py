"""What keeps a notebook's door shut: a table that went, or a stream that cannot be read."""

from pathlib import Path

from medallion_assets.delta import log
from medallion_assets.delta.damage import refuse_damaged
from medallion_assets.delta.errors import DamagedCheckpoint
from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources.errors import TableLost
from medallion_assets.sources.load_target import LoadTarget


def refuse_unsound(place: LoadTarget, checkpoint: Path) -> None:
    """Raise where a load would bring less than all that is new, and says what mends it.

    Raises:
        TableLost: The table is gone, and files are on record as loaded into it.
        DamagedCheckpoint: A file of the stream's checkpoint is empty, cut off or altered.
    """
    if not log.exists(place.path) and outcomes.any_loaded(place.ledger):
        raise TableLost(place.key, place.path, place.state, place.quarantine)
    try:
        refuse_damaged(checkpoint)
    except DamagedCheckpoint as error:
        raise DamagedCheckpoint(
            f"{place.key}: {error}. Nothing was read or written: remove {checkpoint} and load again; nothing "
            "is lost or doubled by that."
        ) from error
