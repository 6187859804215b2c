"""The rescued data column: what no column took, as JSON, with the file it came from.

Rules as in Auto Loader: a field the schema does not know, one whose value does not fit its column's
type, and one whose name differs in case only. A key that stands twice gives all its values. NULL where
nothing was left over. Nested fields are rescued alone; an array or map with a misfit is rescued whole.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

FIELDS = "map<string,variant>"
FILE_PATH = '"_file_path":'


def written(parts: Column, file: Column) -> Column:
    """Return ``"name":value`` parts as one JSON object with ``_file_path`` at its end, NULL for no part."""
    whole = F.concat(F.lit("{"), F.concat_ws(",", parts), F.lit("," + FILE_PATH), as_json(file), F.lit("}"))
    return F.when(F.size(parts) > 0, whole)


def as_json(text: Column) -> Column:
    """Return a string as a JSON string."""
    return F.to_json(text.cast("variant"))
