"""School's answers: who takes how much when, and who teaches how many courses."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets import stream
from medallion_assets.pipelines.school import bronze, silver
from medallion_assets.pipelines.school.pipeline import school


@school.gold(output_mode="complete", row_count_column="enrollments")
def daily_student_courses(enrollments: DataFrame = stream(silver.enrollments)) -> DataFrame:
    """One row per student and day, with the courses they took that day."""
    day = F.date_trunc("DD", "formatted_timestamp").alias("day")
    by_student = enrollments.groupBy("student_id", "email", day)
    return by_student.agg(F.sum("quantity").alias("courses_counts"), F.count("*").alias("enrollments"))


@school.gold(output_mode="complete", row_count_column="courses")
def instructor_counts(courses: DataFrame = stream(bronze.courses)) -> DataFrame:
    """One row per instructor, with the number of courses they teach, and of rows those were in."""
    return courses.groupBy("instructor").agg(
        F.count("course_id").alias("total_courses"), F.count("*").alias("courses")
    )
