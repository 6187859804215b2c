"""Names of the temporary columns that the engine adds to rows; they are never written to a table.

All begin with ``RESERVED``, so that they differ from every user column. Columns for rules (``_check_...``)
are public, and so are the reader's ``_raw`` and ``_reason``: a landing field of these names is rescued.
"""

from medallion_assets.delta.names import RESERVED

BEGINS = f"{RESERVED}begins"
BROKEN = f"{RESERVED}broken"
CONTENT = f"{RESERVED}content"
DELETED = f"{RESERVED}deleted"
FITS = f"{RESERVED}fits"
FOLLOWING = f"{RESERVED}following"
GAP = f"{RESERVED}gap"
GONE = f"{RESERVED}gone"
HELD = f"{RESERVED}held"
IDENTITY = f"{RESERVED}identity"
IS_STATE = f"{RESERVED}is_state"
KNOWN = f"{RESERVED}known"
LEVEL = f"{RESERVED}level"
MAP = f"{RESERVED}map"
MENDED = f"{RESERVED}mended"
NEW = f"{RESERVED}new"
NEXT = f"{RESERVED}next"
NTH = f"{RESERVED}nth"
OUTCOME = f"{RESERVED}outcome"
PLACE = f"{RESERVED}place"
REPEATED = f"{RESERVED}repeated"
ROW_ID = f"{RESERVED}row_id"
SINCE = f"{RESERVED}since"
STATE = f"{RESERVED}state"
STEP = f"{RESERVED}step"
TEXT = f"{RESERVED}text"
THEN = f"{RESERVED}then"
TRUNCATED = f"{RESERVED}truncated"
TURN = f"{RESERVED}turn"
UNFIT = f"{RESERVED}unfit"
