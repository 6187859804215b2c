"""Many odd files at once, made from a seed, and real ones (D1, D2, H1)."""

import json
import subprocess
import sys
from random import Random

from medallion_assets.sources import autoload_to_table
from medallion_assets.sources import file_status as outcomes
from medallion_assets_tests.dagster_home import PROJECT
from medallion_assets_tests.faults.trial import fault

JSON_FILES, CSV_FILES = 2000, 1000
JUNK = [*'"{}[],:\\\0\t\u2028\ufffe', "null", "1e999", "NaN", "'", "//x", "{}"]
CELLS = ["1", "", "x", '"a,b"', '"two\nlines"', '"say ""so"""', '"open', "é", " 7 ", "1e3", "a;b", "=1+1"]


@fault("D1", f"{JSON_FILES} JSON files of lines cut, doubled, full of junk", "no crash; bad lines never good")
def odd_json(trial):
    zone, random = trial.lake.settings.landing / "corpus", Random(1)
    zone.mkdir(parents=True)
    for number in range(JSON_FILES):
        text = "\n".join(spoilt(random, line_of(random)) for _ in range(random.randrange(1, 20)))
        (zone / f"{number}.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    done, rows = loaded(trial, zone, "json", JSON_FILES)
    for row in rows:
        text = (zone / row["path"]).read_bytes().decode("utf-8", "surrogateescape")
        sound = sum(map(is_object, text.split("\n"))) or documents_in(text)
        assert row["rows_loaded"] <= sound, f"{row['path']}: a bad line is a row"
        assert row["rows_read"] == row["rows_loaded"] + row["rows_quarantined"], row["path"]
    return f"{done.rows_read} records: {done.rows_loaded} rows, {done.rows_quarantined} quarantined"


@fault(
    "D2",
    f"{CSV_FILES} CSV files: ragged, quoted, unbalanced, with headers of all kinds",
    "no crash; all accounted",
)
def odd_csv(trial):
    zone, random = trial.lake.settings.landing / "corpus", Random(2)
    zone.mkdir(parents=True)
    for number in range(CSV_FILES):
        header = random.sample(["id", "name", "ID", "total", "x y", ""], random.randrange(1, 5))
        body = [random.choices(CELLS, k=random.randrange(1, 6)) for _ in range(random.randrange(0, 12))]
        text = "".join(",".join(cells) + random.choice(["\n", "\r\n"]) for cells in [header, *body])
        (zone / f"{number}.csv").write_bytes(text.encode(random.choice(["utf-8", "utf-8-sig", "latin-1"])))
    done, rows = loaded(trial, zone, "csv", CSV_FILES)
    for row in rows:
        assert row["rows_read"] == row["rows_loaded"] + row["rows_quarantined"], row["path"]
    return f"{done.rows_read} records: {done.rows_loaded} rows, {done.rows_quarantined} quarantined"


@fault(
    "H1", "real recordings and orders and simulated schools, in instalments", "what Python computes of them"
)
def real_files(_):
    return tests_pass(
        "pipelines/test_commerce.py::test_days_of_orders_and_customers_reach_windows_and_sums",
        "pipelines/test_commerce.py::test_the_real_customers_who_stand_twice_multiply_no_order",
        "pipelines/test_health.py::test_real_files_in_three_instalments_equal_an_independent_computation",
        "pipelines/test_school.py::test_increments_with_faults_equal_an_independent_computation",
    )


def tests_pass(*tests):
    """Run tests by name, in a process of their own; gives how they ended, and fails where one did."""
    # Whatever they are marked with, they are run; a name that is not there is an error.
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(f"medallion_assets_tests/{test}" for test in tests)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-500:]
    return done.stdout.strip().splitlines()[-1]


def loaded(trial, zone, kind, files):
    check = str(trial.lake.root.parent / "check")
    with trial.patched():
        done = autoload_to_table(str(zone), kind, "corpus", check, spark=trial._spark())
    rows = [row for row in outcomes.newest(done.ledger).values() if row["status"] == outcomes.LOADED]
    assert done.files + done.files_refused == files, f"{done.files} read, {done.files_refused} refused"
    assert done.rows_unaccounted == 0
    return done, rows


def line_of(random):
    return json.dumps(
        {"id": random.randrange(99), "of": random.choice(["a", "é", "x y", None]), "n": {"d": 1.5}}
    )


def spoilt(random, line):
    at = random.randrange(len(line))
    kinds = [
        line,
        line[:at],
        line[at:],
        line + line,
        line[:at] + random.choice(JUNK) + line[at:],
        " ",
        line + " x",
    ]
    return random.choice(kinds).replace("\n", " ")


def is_object(line):
    """Return true where Python reads one object, as strictly as the engine does."""
    try:
        return isinstance(json.loads(line.strip(" \t\r")), dict)
    except ValueError:
        return False


def documents_in(text):
    """How many JSON values the text is, laid out over lines as they please; 0 where it is not only that."""
    found, rest = 0, text.strip()
    while rest:
        try:
            _, end = json.JSONDecoder().raw_decode(rest)
        except ValueError:
            return 0
        found, rest = found + 1, rest[end:].lstrip()
    return found
