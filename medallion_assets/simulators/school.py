"""A school's files: enrollments by the thousand, their students, and the courses."""

import csv
import io
import json
from collections.abc import Iterable
from random import Random

FILES = 10
ENROLLMENTS_A_FILE = 1000
STUDENTS = 200
COURSES = 15
LATER_COURSES = {3: range(16, 19), 4: range(19, 22)}
"""By the enrollment file they land with: further courses of known instructors, then of new ones."""
INSTRUCTORS = (
    "Amara Osei", "Björn Lindqvist", "Chen Wei", "Dolores Ibáñez", "Emeka Nwosu", "Freya Holm",
    "Goran Petrović", "Hana Sato", "Ivan Marković", "Jorge Amado", "Katarzyna Lis", "Lamin Jallow",
    "Mei Tanaka", "Noor Rahman", "Oscar Lund", "Petra Novak", "Quentin Roy", "Rosa Marín",
)  # fmt: skip
"""The first 15 teach a course each from the start."""
FIRST_SECOND = 1_704_067_200
"""2024-01-01 00:00 UTC; each file covers the day after the one before it."""


def file_name(number: int) -> str:
    """Return the name of enrollment file ``number``."""
    return f"enrollments_{number:04d}.json"


def enrollments(number: int, random: Random) -> list[str]:
    """Return one day's enrollments as JSON lines."""
    return [json.dumps(_enrollment(number, i, random)) for i in range(ENROLLMENTS_A_FILE)]


def references(random: Random) -> dict[str, str]:
    """Return the students and the courses, each as one file."""
    students = "".join(json.dumps(_student(i, random)) + "\n" for i in range(STUDENTS))
    return {
        "students/students_0001.json": students,
        "courses/courses_0001.csv": _courses(random, range(1, COURSES + 1)),
    }


def later_courses(number: int, random: Random, with_faults: bool) -> dict[str, str]:
    """Return the courses that are added while the term runs."""
    added = LATER_COURSES.get(number)
    return {f"courses/courses_{number:04d}.csv": _courses(random, added)} if added else {}


def _enrollment(number: int, position: int, random: Random) -> dict[str, object]:
    chosen = [_course(random) for _ in range(random.randint(1, 4))]
    return {
        "courses": chosen,
        "enroll_id": f"E{number:04d}{position:05d}",
        "enroll_timestamp": FIRST_SECOND + (number - 1) * 86_400 + random.randrange(86_400),
        "quantity": len(chosen),
        "student_id": f"S{random.randrange(STUDENTS):05d}",
    }


def _course(random: Random) -> dict[str, object]:
    discount = random.choice((0.0, 0.0, 10.0, 25.0))
    subtotal = round(random.uniform(40, 400) * (1 - discount / 100), 2)
    return {
        "course_id": f"C{random.randint(1, COURSES):02d}",
        "discount_percent": discount,
        "subtotal": subtotal,
    }


def _student(position: int, random: Random) -> dict[str, object]:
    profile = {"year": random.randint(1, 4), "city": random.choice(("Lagos", "Umeå", "Quito", "Pune"))}
    return {
        "email": f"student{position:05d}@school.example",
        "gpa": round(random.uniform(1.5, 4.0), 2),
        "profile": json.dumps(profile, ensure_ascii=False),
        "student_id": f"S{position:05d}",
        "updated": "2023-12-15T09:30:00Z",
    }


def _courses(random: Random, numbers: Iterable[int]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["course_id", "title", "instructor", "category", "price"])
    for i in numbers:
        # C16 to C18 are of the first three again, C19 to C21 of the three that are new.
        instructor = INSTRUCTORS[i - 4 if i > 18 else (i - 1) % COURSES]
        topic = random.choice(("Algebra", "Painting", "Networks", "Rhetoric"))
        writer.writerow([f"C{i:02d}", f"{topic}, part {i}", instructor, topic.lower(), 40 + 5 * i])
    return text.getvalue()
