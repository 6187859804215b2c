"""School's enrollments and students, cleaned and joined."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets import expect, keep_changes, static, stream
from medallion_assets.pipelines.school import bronze
from medallion_assets.pipelines.school.pipeline import school


@school.silver(scd=keep_changes("student_id", "updated"))
def students(delivered: DataFrame = stream(bronze.students)) -> DataFrame:
    """One row per student, in the state with the latest ``updated``."""
    return delivered.select("student_id", "email", "gpa", "profile", "updated")


@school.silver(
    unique_by="enroll_id",
    expectations=[
        expect("positive_quantity", "quantity > 0"),
        expect("readable_time", "formatted_timestamp IS NOT NULL"),
    ],
)
def enrollments(
    raw: DataFrame = stream(bronze.enrollments),
    students: DataFrame = static(students, on="student_id", unmatched="retry"),
) -> DataFrame:
    """One row per enrollment, with the e-mail of the student who made it; one of an unknown student waits."""
    joined = raw.join(F.broadcast(students.select("student_id", "email")), "student_id", "left")
    # Casts that fail give NULL and break a rule; Spark's default would fail the whole stream.
    time = F.col("enroll_timestamp").try_cast("timestamp").alias("formatted_timestamp")
    return joined.select("enroll_id", "quantity", "student_id", "email", time, "courses", "_source_file",
                         "_source_modified_at")  # fmt: skip
