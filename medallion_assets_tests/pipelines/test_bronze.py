"""Bronze of every reference pipeline: what no column takes is kept and told."""

import json

import pytest

from medallion_assets.pipelines import PIPELINES
from medallion_assets.quality.verdicts import nothing_rescued

pytestmark = pytest.mark.spark

ENROLLMENT = {"enroll_id": "E1", "quantity": 1, "student_id": "S1", "courses": [{"seat": 4}]}
CUSTOMERS = "customer_id,first_name,surprise\nC1,Ann,x\n"
LANDED = {
    "school/bronze/enrollments": ("enrollments", json.dumps(ENROLLMENT | {"surprise": 1})),
    "school/bronze/students": ("students", '{"student_id":"S1","surprise":1}'),
    "school/bronze/courses": ("courses", "course_id,surprise\nC1,x\n"),
    "health/bronze/recordings": ("recordings", '{"mrn":7,"surprise":1}'),
    "health/bronze/patients": ("patients", "mrn,surprise\n7,x\n"),
    "commerce/bronze/customers_with_validation": ("customers", CUSTOMERS),
}
"""By table: its landing zone, and a file with a field that its declared schema does not know."""


def test_an_unknown_field_is_kept_and_named_by_a_check_where_a_schema_is_declared(drop, run, rows_of, lake):
    for key, (zone, text) in LANDED.items():
        drop(f"{key.partition('/')[0]}/{zone}", "a.csv" if text.startswith(("c", "m")) else "a.json", text)
    run(*LANDED)
    for key in LANDED:
        table = PIPELINES[key.partition("/")[0]].tables[key]
        (row,) = rows_of(key)
        fields = json.loads(row["_rescued_data"]).keys() - {"_file_path"}
        told = nothing_rescued(table, lake)
        assert "surprise" in fields
        assert (told.passed, told.numbers["rescued"]) == (False, 1)
        assert told.words.endswith(f": {', '.join(sorted(fields))}"), told.words
