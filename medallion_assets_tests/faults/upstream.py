"""Faults of what a table reads: changed by hand, and static tables that are late or double (E1, E2)."""

from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, static, stream
from medallion_assets.delta import log
from medallion_assets_tests.faults.damaged_tables import mended_as, told_by_verbs
from medallion_assets_tests.faults.storage import mended
from medallion_assets_tests.faults.trial import fault
from medallion_assets_tests.shop import json_lines

BY_HAND = {
    "DELETE": "DELETE FROM delta.`{path}` WHERE id % 2 = 0",
    "UPDATE": "UPDATE delta.`{path}` SET total = total + 1000 WHERE id % 2 = 0",
    "INSERT OVERWRITE": "INSERT OVERWRITE delta.`{path}` SELECT * FROM delta.`{path}` WHERE id % 2 = 0",
    "RESTORE": "RESTORE delta.`{path}` TO VERSION AS OF 0",
    "INSERT of rows that never landed": "INSERT INTO delta.`{path}` SELECT id + 90000 AS id, * EXCEPT (id) "
    "FROM delta.`{path}`",
}


def changed_by_hand(statement):
    """Two runs, the change to silver's table, a third run: whether anything tells of it."""

    def run(trial):
        for _ in range(2):
            trial.send()
            trial.go()
        trial._spark().sql(statement.format(path=trial.lake.path(trial.tables[1])))
        trial.send()
        said = trial.try_to_go() or told_by_verbs(trial)
        assert said, "a table was changed by hand and nothing told of it"
        return mended_as(said, trial)

    return run


for name, statement in BY_HAND.items():
    fault("E1", f"{name} in silver's table, by hand", "told by name; exact after the verb that is named")(
        changed_by_hand(statement)
    )


@fault("E1", "a column is added to silver's table by hand", "told by name; exact after the verbs named")
def column_by_hand(trial):
    trial.send()
    trial.go()
    trial._spark().sql(f"ALTER TABLE delta.`{trial.lake.path(trial.tables[1])}` ADD COLUMNS (extra STRING)")
    trial.send()
    stops = mended(trial)
    return f"{trial.holds()}; {stops} stopped and said full_refresh"


def mart():
    made = Pipeline("mart")

    @made.bronze()
    def names(files=made.landing("names", format="json", schema="kind BIGINT, name STRING",  # noqa: B008
                                 allow_overwrites="replace")):  # fmt: skip
        """One row per name, as it landed."""
        return files

    @made.bronze()
    def sold(files=made.landing("sold", format="json", schema="id BIGINT, kind BIGINT")):  # noqa: B008
        """One row per sale, as it landed."""
        return files

    known = static(names, on="kind", unmatched="retry", follow=True, unique_by="kind", repeated="keep_one")

    @made.silver(unique_by="id")
    def named(sold=stream(sold), names=known):
        """One row per sale, with the name of its kind."""
        return sold.join(names.select("kind", "name"), "kind", "left").select("id", "kind", "name")

    @made.gold(output_mode="incremental", row_count_column="sales")
    def per_name(named=stream(named)):
        """One row per name, with its sales."""
        return named.groupBy("name").agg(F.count("*").alias("sales"))

    return [names, sold, named, per_name]


def sales(trial, name, *kinds):
    text = json_lines(*({"id": int(name) * 100 + n, "kind": kind} for n, kind in enumerate(kinds)))
    trial.land("mart/sold", f"{name}.json", text)


def named_as(trial, name, **names):
    text = json_lines(*({"kind": int(kind[1:]), "name": said} for kind, said in names.items()))
    trial.land("mart/names", name, text)


def stands(trial, tables, expected):
    found = {r["id"]: r["name"] for r in trial.rows(tables[2], "SELECT id, name FROM t")}
    assert found == expected, f"silver has {found}, not {expected}"
    assert log.row_count(trial.lake.path(tables[2])) == len(expected), "a row stands twice"
    trial.assert_conserved(*tables)
    trial.assert_exactly_once(*tables)
    counts = {r["name"]: r["sales"] for r in trial.rows(tables[3], "SELECT name, sales FROM t")}
    wanted = {name: list(expected.values()).count(name) for name in expected.values()}
    assert counts == wanted, f"gold has {counts}, not {wanted}"
    return f"{len(expected)} sales, each once, with the name that holds"


@fault("E2", "static rows that land after the rows that need them", "they wait, and come through once")
def late_names(trial):
    tables = mart()
    named_as(trial, "1.json", k1="one")
    sales(trial, "1", 1, 2, 3)
    trial.run(*tables)
    named_as(trial, "2.json", k2="two")
    sales(trial, "2", 2)
    trial.run(*tables)
    said = stands(trial, tables, {100: "one", 101: "two", 200: "two"})
    waiting = log.row_count(trial.lake.quarantine(tables[2]))
    assert waiting == 1, f"{waiting} rows wait, not 1"
    return f"{said}; one waits"


@fault("E2", "a key that stands twice in the static table", "no row is multiplied")
def double_names(trial):
    tables = mart()
    named_as(trial, "1.json", k1="one", k2="two")
    named_as(trial, "2.json", k1="uno")
    sales(trial, "1", 1, 1, 2)
    trial.run(*tables)
    return stands(trial, tables, {100: "uno", 101: "uno", 102: "two"})


@fault("E2", "the file of a static table is replaced between two batches", "all rows have the new names")
def replaced_names(trial):
    tables = mart()
    named_as(trial, "1.json", k1="one", k2="two")
    sales(trial, "1", 1, 2)
    trial.run(*tables)
    sales(trial, "2", 2, 1)
    trial.run(*tables[1:2])
    named_as(trial, "1.json", k1="eins", k2="zwei")
    trial.run(*tables)
    return stands(trial, tables, {100: "eins", 101: "zwei", 200: "zwei", 201: "eins"})
