"""School's enrollments and students, cleaned and joined."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.pipelines.school import bronze
from medallion_assets.pipelines.school.pipeline import school
from medallion_assets.tables import expect, static, stream


@school.silver(output_mode="complete", counts_rows="deliveries")
def students(delivered: DataFrame = stream(bronze.students)) -> DataFrame:
    """One row per student, in the state with the latest ``updated``."""
    state = F.struct("updated", "email", "gpa", "profile")
    latest = delivered.groupBy("student_id").agg(F.max(state).alias("s"), F.count("*").alias("deliveries"))
    return latest.select("student_id", "s.email", "s.gpa", "s.profile", "s.updated", "deliveries")


@school.silver(
    unique_by="enroll_id",
    expectations=[
        expect("positive_quantity", "quantity > 0"),
        expect("known_student", "_check_known"),
        expect("readable_time", "enroll_time IS NOT NULL"),
    ],
)
def enrollments(
    raw: DataFrame = stream(bronze.enrollments),
    students: DataFrame = static(students),
) -> DataFrame:
    """One row per enrollment, with the e-mail of the student who made it."""
    known = students.select("student_id", "email", F.lit(True).alias("_check_known"))
    joined = raw.join(F.broadcast(known), "student_id", "left")
    # Casts that fail give NULL and break a rule; Spark's default would fail the whole stream.
    time = F.col("enroll_timestamp").try_cast("timestamp").alias("enroll_time")
    return joined.select("enroll_id", "student_id", "email", time, "quantity", "courses", "_source_file",
                         "_source_modified_at", "_check_known")  # fmt: skip
