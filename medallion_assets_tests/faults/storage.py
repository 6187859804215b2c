"""Faults of checkpoints: cut up, lost, put back from an old copy (B1, B3)."""

import shutil

from medallion_assets.verbs import VERBS, Asked
from medallion_assets_tests.faults.trial import fault

LAYERS = ("bronze/orders", "silver/sales", "gold/totals", "gold/merged")


def checkpoint(trial, layer):
    return trial.lake.root / "shop/_state" / layer / "checkpoint"


def newest(folder):
    return max((f for f in folder.iterdir() if f.name.isdigit()), key=lambda f: int(f.name))


def cut(file, how):
    if how == "deleted":
        file.unlink()
    elif how == "emptied":
        file.write_bytes(b"")
    else:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    # Hadoop's own checksum would find the cut first.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def mended(trial):
    """Runs on; where a table stops, does what its message says, and nothing else; gives how often."""
    stops = 0
    for table in trial.tables:
        try:
            trial.run(table)
        except Exception as error:
            stops, said = stops + 1, str(error)
            verb = next((v for v in ("full_refresh", "reset_checkpoint") if f"{v} {table.key}" in said), "")
            assert verb, f"no verb is named: {said[:200]}"
            told = VERBS[verb](table, trial.lake, trial._spark, Asked())
            assert told.well, told.does
            trial.run(table)
    return stops


def surgery(what, how):
    def run(trial):
        trial.send()
        trial.go()
        trial.send()
        trial.go()
        for layer in LAYERS:
            place = checkpoint(trial, layer)
            file = place / "metadata" if what == "metadata" else newest(place / what)
            cut(file, how)
        trial.send()
        stops = mended(trial)
        return trial.holds() + (f"; {stops} stopped and said reset_checkpoint" if stops else "")

    return run


for what in ("metadata", "offsets", "commits"):
    for how in ("deleted", "emptied", "truncated"):
        words = (
            f"each checkpoint's newest {what} {how}" if what != "metadata" else f"each metadata file {how}"
        )
        fault("B1", words, "exact, or stopped with the verb that mends it")(surgery(what, how))


@fault("B1", "every checkpoint put back from an older copy", "exact: no file is swallowed")
def rolled_back(trial):
    trial.send()
    trial.go()
    for layer in LAYERS:
        shutil.copytree(checkpoint(trial, layer), checkpoint(trial, layer).with_name("old"))
    for _ in range(2):
        trial.send()
        trial.go()
    for layer in LAYERS:
        shutil.rmtree(checkpoint(trial, layer))
        checkpoint(trial, layer).with_name("old").rename(checkpoint(trial, layer))
    trial.send()
    stops = mended(trial)
    return trial.holds() + (f"; {stops} stopped" if stops else "")


@fault("B3", "every checkpoint lost, every table kept", "exact")
def checkpoints_lost(trial):
    trial.send()
    trial.go()
    for layer in LAYERS:
        shutil.rmtree(checkpoint(trial, layer))
    trial.send()
    trial.go()
    return trial.holds()


@fault("B3", "a table lost, its checkpoint kept", "refused by name; reset takes it all again")
def table_lost(trial):
    trial.send()
    trial.go()
    shutil.rmtree(trial.lake.path(trial.tables[1]))
    trial.send()
    said = trial.try_to_go()
    assert said.startswith("CheckpointMismatch: shop/silver/sales"), said
    VERBS["reset"](trial.tables[1], trial.lake, trial._spark, Asked())
    trial.go()
    return trial.holds()
