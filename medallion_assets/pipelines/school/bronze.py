"""School's records as they landed."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.pipelines.school.pipeline import school

ENROLLMENT = (
    "courses ARRAY<STRUCT<course_id: STRING, discount_percent: DOUBLE, subtotal: DOUBLE>>, enroll_id STRING, "
    "enroll_timestamp BIGINT, quantity BIGINT, student_id STRING"
)
STUDENT = "email STRING, gpa DOUBLE, profile STRING, student_id STRING, updated STRING"
COURSE = "course_id STRING, title STRING, instructor STRING, category STRING, price DOUBLE"


@school.bronze()
def enrollments(
    files: DataFrame = school.landing("enrollments", format="json", schema=ENROLLMENT),
) -> DataFrame:
    """One row per enrollment record, as it landed, with the time and file it came in."""
    return files.withColumns({"arrival_time": F.current_timestamp(), "source_file": F.col("_source_file")})


@school.bronze()
def students(files: DataFrame = school.landing("students", format="json", schema=STUDENT)) -> DataFrame:
    """One row per delivered state of a student, as it landed; a student may come again, changed."""
    return files


@school.bronze()
def courses(files: DataFrame = school.landing("courses", format="csv", schema=COURSE)) -> DataFrame:
    """One row per course, as it landed."""
    return files
