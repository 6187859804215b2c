"""``plan`` sees every change of the user's code that reaches a table, and no other; without Spark."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SHOP = {
    "__init__.py": "",
    "rates.py": """
        VAT = 1.2
        RATES = {"a": 1, "b": 2}
        SMALL = {"x", "y", "z"}

        def deeper(rows):
            return rows.limit(3)

        def with_vat(rows):
            return deeper(rows).withColumn("total", VAT)

        def unused(rows):
            return rows.limit(9)
    """,
    "tables.py": """
        from pyspark.sql import functions as F

        from medallion_assets import Pipeline, expect, stream, static
        from shop import rates
        from shop.rates import SMALL

        shop = Pipeline("shop")

        def local(rows):
            # A comment.
            return rows

        class Cleaner:
            def clean(self, rows):
                return rows.where("id > 0")

        @shop.bronze()
        def orders(files=shop.landing("orders", format="json", schema="id INT, total INT")):
            '''One row per order.'''
            return files

        @shop.silver(expectations=[expect("above_zero", "total > 0")], unique_by="id")
        def sales(orders=stream(orders)):
            '''One row per sale.'''
            from shop.later import late
            cleaned = Cleaner().clean(local(orders)).where(F.col("x").isin(*SMALL))
            return late(rates.with_vat(cleaned))
    """,
    "later.py": """
        def late(rows):
            return rows
    """,
}
SCRIPT = """
import os, sys
from medallion_assets.lake.code_version import code_version
import medallion_assets
for folder in sys.argv[1:]:
    child = os.fork()
    if not child:
        sys.path.insert(0, folder)
        import shop.later, shop.tables
        print(code_version(shop.tables.sales), code_version(shop.tables.orders), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""

CHANGES = {
    "nothing": (None, ()),
    "the query": (0, [("tables.py", 'F.col("x")', 'F.col("y")')]),
    "a function of another module, two calls deep": (1, [("rates.py", "limit(3)", "limit(4)")]),
    "a constant of another module": (1, [("rates.py", "1.2", "1.3")]),
    "a set of constants": (1, [("rates.py", '"z"', '"w"')]),
    "a method of a class": (1, [("tables.py", "id > 0", "id > 1")]),
    "a function imported inside the query": (1, [("later.py", "return rows", "return rows.limit(1)")]),
    "an expectation": (2, [("tables.py", "total > 0", "total > 1")]),
    "the keys": (3, [("tables.py", 'unique_by="id"', 'unique_by=("id", "total")')]),
    "a comment": (None, [("tables.py", "# A comment.", "# Another.\n")]),
    "a function no query uses": (None, [("rates.py", "limit(9)", "limit(10)")]),
    "the lines above a function": (None, [("rates.py", "def deeper", "\n\n        def deeper")]),
    "a schema": (None, [("tables.py", "total INT", "total BIGINT")]),
}
"""By what changed: the part of the version of ``sales`` that must change, and the words to replace."""


def write_shop(folder, changes):
    (folder / "shop").mkdir(parents=True)
    for name, text in SHOP.items():
        for file, old, new in changes:
            assert file != name or old in text
            text = text.replace(old, new) if file == name else text
        (folder / "shop" / name).write_text(textwrap.dedent(text))
    return str(folder)


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """Return, for two hash seeds, the versions of sales and orders after each change, by its name."""
    found = []
    for seed in ("1", "2"):
        root = tmp_path_factory.mktemp(f"seed{seed}")
        folders = [write_shop(root / str(i), words) for i, (_, words) in enumerate(CHANGES.values())]
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path.cwd())}
        command = [sys.executable, "-B", "-c", SCRIPT, *folders]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        lines = [[v.split("-") for v in line.split()] for line in done.stdout.splitlines()]
        found.append(dict(zip(CHANGES, lines, strict=True)))
    return found


def differing(one, other):
    return [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]


@pytest.mark.parametrize("what", CHANGES)
def test_the_version_changes_in_the_part_that_changed_and_in_no_other(versions, what):
    part, _ = CHANGES[what]
    changed = differing(versions[0][what][0], versions[0]["nothing"][0])
    assert changed == ([] if part is None else [part])


def test_a_schema_is_a_change_of_the_inputs_of_the_table_that_reads_it(versions):
    assert differing(versions[0]["a schema"][1], versions[0]["nothing"][1]) == [4]


def test_hash_seeds_and_folders_change_nothing(versions):
    assert versions[0] == versions[1]
