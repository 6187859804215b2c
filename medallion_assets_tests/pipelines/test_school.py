"""School end to end on simulated files, against sums made without Spark from the raw files."""

import json
from collections import defaultdict
from datetime import datetime, timezone

import pytest

from medallion_assets.delta import log
from medallion_assets.simulators import land

pytestmark = pytest.mark.spark


def whole_objects(paths):
    """Every line that is one JSON object of the declared shape, judged by Python alone."""
    for path in sorted(paths):
        for line in path.read_text().splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and not isinstance(record.get("quantity"), str):
                yield record


def expected_gold(landing):
    students = {}
    for record in whole_objects((landing / "students").glob("*.json")):
        students[record["student_id"]] = max(
            students.get(record["student_id"], ("", "")), (record["updated"], record["email"])
        )
    seen, sums = set(), defaultdict(int)
    for r in whole_objects((landing / "enrollments").glob("*.json")):
        good = (r["quantity"] or 0) > 0 and r["student_id"] in students
        if not good or r["enroll_id"] in seen:
            continue
        seen.add(r["enroll_id"])
        day = datetime.fromtimestamp(r["enroll_timestamp"] // 86400 * 86400, timezone.utc)
        sums[r["student_id"], students[r["student_id"]][1], day] += r["quantity"]
    return dict(sums)


def test_increments_with_faults_equal_an_independent_computation(lake, run, rows_of):
    for _ in range(3):
        land("school", lake.settings.landing, 1, with_faults=True)
        done = run("school")
        gold = rows_of("school/gold/daily_student_courses")
        found = {(r["student_id"], r["email"], r["day"]): r["courses_counts"] for r in gold}
        assert found == expected_gold(lake.settings.landing / "school")
        assert done["school/silver/enrollments"].total("duplicates") == 1
    types = dict(log.schema(lake.root / "school/gold/daily_student_courses"))
    assert (types["day"], types["courses_counts"]) == ("timestamp", "long")
    sent = whole_objects((lake.settings.landing / "school/enrollments").glob("*.json"))
    times = {r["enroll_id"]: datetime.fromtimestamp(r["enroll_timestamp"], timezone.utc) for r in sent}
    silver = rows_of("school/silver/enrollments", "SELECT enroll_id, formatted_timestamp FROM t")
    assert {r["enroll_id"]: r["formatted_timestamp"] for r in silver}.items() <= times.items()
    rules = rows_of("school/quarantine/silver_enrollments", "SELECT DISTINCT unnest(rules) AS rule FROM t")
    assert {r["rule"] for r in rules} == {"positive_quantity", "students_matched"}


CHAPTER = ("school/bronze/enrollments", "school/bronze/courses", "school/gold/instructor_counts")


def test_each_landing_shows_the_rows_and_the_instructors_it_brings(lake, run, rows_of):
    begun, shown = datetime.now(timezone.utc), []
    for files in (1, 2, 1, 1, 1):
        land("school", lake.settings.landing, files)
        run(*CHAPTER)
        (bronze,) = rows_of(CHAPTER[0], "SELECT count(*) AS n FROM t")
        counts = [r["total_courses"] for r in rows_of(CHAPTER[2], "SELECT total_courses FROM t")]
        shown.append((bronze["n"], len(counts), sum(counts), max(counts)))
    assert shown == [
        (1000, 15, 15, 1),
        (3000, 15, 18, 2),
        (4000, 18, 21, 2),
        (5000, 18, 21, 2),
        (6000, 18, 21, 2),
    ]
    columns = "arrival_time, _ingested_at, source_file, _source_file"
    files = rows_of(CHAPTER[0], f"SELECT DISTINCT {columns} FROM t ORDER BY source_file")
    assert [f["source_file"] for f in files] == [f"enrollments_{number:04d}.json" for number in range(1, 7)]
    assert all(f["source_file"] == f["_source_file"] for f in files)
    assert all(begun < f["_ingested_at"] <= f["arrival_time"] < datetime.now(timezone.utc) for f in files)
    assert len({f["arrival_time"] for f in files}) == 5


def test_an_enrollment_delivered_again_later_is_counted_and_not_written(lake, drop, run, rows_of):
    first = land("school", lake.settings.landing, 1)[-1]
    run("school")
    drop("school/enrollments", "again.json", first)
    done = run("school")
    assert done["school/silver/enrollments"].total("duplicates") == 1000
    assert rows_of("school/silver/enrollments", "SELECT count(*) AS n FROM t") == [{"n": 1000}]


def test_a_students_latest_state_wins_whatever_order_it_comes_in(drop, run, rows_of):
    state = '{{"email":"{}","gpa":3.0,"profile":"","student_id":"S1","updated":"{}"}}\n'
    drop("school/students", "new.json", state.format("new@x", "2024-02-01"))
    run("school/bronze/students", "school/silver/students")
    drop("school/students", "old.json", state.format("old@x", "2024-01-01"))
    run("school/bronze/students", "school/silver/students")
    assert rows_of("school/silver/students", "SELECT email FROM t") == [{"email": "new@x"}]


def test_instructors_are_counted_over_files_with_other_column_orders(lake, drop, run, rows_of):
    drop("school/courses", "a.csv", "course_id,title,instructor,category,price\nC1,One,Ada,x,1\n")
    drop("school/courses", "b.csv", "instructor,price,course_id\nAda,2,C2\nBob,3,C3\n")
    run("school/bronze/courses", "school/gold/instructor_counts")
    drop("school/courses", "c.csv", "course_id,title,instructor\n,No id,Ada\n")
    run("school/bronze/courses", "school/gold/instructor_counts")
    assert dict(log.schema(lake.root / "school/gold/instructor_counts"))["total_courses"] == "long"
    rows = rows_of("school/gold/instructor_counts")
    counts = {r["instructor"]: (r["total_courses"], r["courses"]) for r in rows}
    assert counts == {"Ada": (2, 3), "Bob": (1, 1)}, "a row without an id is no course, and is counted"


def test_nothing_new_changes_no_version_and_starts_no_jvm(lake, run, no_spark):
    from medallion_assets.declare.pipeline import chosen
    from medallion_assets.pipelines import PIPELINES
    from medallion_assets.runs.run import refresh

    land("school", lake.settings.landing, 1)
    run("school")
    tables = chosen(PIPELINES, ["school"])
    before = [log.version(lake.path(t)) for t in tables]
    assert [refresh(t, lake, no_spark).skipped for t in tables] == ["nothing new"] * len(tables)
    assert [log.version(lake.path(t)) for t in tables] == before
