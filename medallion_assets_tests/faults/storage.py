"""Faults of checkpoints: cut up, lost, put back from an old copy (B1, B3)."""

import shutil

from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets_tests.faults.trial import fault

STATE = (".delta", ".snapshot", ".zip", ".changelog")
LAYERS = ("bronze/orders", "silver/sales", "gold/totals", "gold/merged")


def checkpoint(trial, layer):
    return trial.lake.root / "shop/_state" / layer / "checkpoint"


def newest(folder):
    return max((f for f in folder.iterdir() if f.name.isdigit()), key=lambda f: int(f.name))


def files_of(what, place):
    """Return the newest file of a kind in a checkpoint, for state one of each partition."""
    if what == "metadata":
        return [place / "metadata"]
    if what == "state":
        folders = [f for f in (place / "state/0").glob("[0-9]*") if f.is_dir()]
        return [max((f for f in folder.iterdir() if f.suffix in STATE), key=version_of) for folder in folders]
    return [newest(place / what)]


def version_of(file):
    return int(file.name.partition("_")[0].partition(".")[0])


def cut(file, how):
    whole = file.read_bytes()
    if how == "deleted":
        file.unlink()
    elif how == "emptied":
        file.write_bytes(b"")
    elif how == "truncated":
        file.write_bytes(whole[: len(whole) // 2])
    else:
        half = len(whole) // 2
        file.write_bytes(whole[:half] + bytes([whole[half] ^ 16]) + whole[half + 1 :])
        return
    # Hadoop's own checksum would find the cut first.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def mended(trial):
    """Run on; where a table stops, does what its message says, and nothing else; gives how often."""
    stops = 0
    for table in trial.tables:
        try:
            trial.run(table)
        except Exception as error:
            stops, said = stops + 1, str(error)
            verb = next((v for v in ("full_refresh", "reset_checkpoint") if f"{v} {table.key}" in said), "")
            assert verb, f"no verb is named: {said[:200]}"
            told = VERBS[verb](table, trial.lake, trial._spark, VerbRequest())
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
            for file in files_of(what, checkpoint(trial, layer)):
                cut(file, how)
        # The session holds its state in memory, as no later run does.
        trial._spark()._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
        trial.send()
        stops = mended(trial)
        return trial.holds() + (f"; {stops} stopped and said reset_checkpoint" if stops else "")

    return run


for what in ("metadata", "offsets", "commits", "state"):
    for how in ("deleted", "emptied", "truncated", "with a bit turned"):
        words = (
            f"each metadata file {how}" if what == "metadata" else f"each checkpoint's newest {what} {how}"
        )
        fault("B1", words, "exact, or stopped with the verb that mends it")(surgery(what, how))


def rolled_back(batches):
    def run(trial):
        trial.send()
        trial.go()
        for layer in LAYERS:
            shutil.copytree(checkpoint(trial, layer), checkpoint(trial, layer).with_name("old"))
        for _ in range(batches):
            trial.send()
            trial.go()
        for layer in LAYERS:
            shutil.rmtree(checkpoint(trial, layer))
            checkpoint(trial, layer).with_name("old").rename(checkpoint(trial, layer))
        trial.send()
        stops = mended(trial)
        return trial.holds() + (f"; {stops} stopped" if stops else "")

    return run


for batches in (1, 3):
    words = f"every checkpoint put back from a copy {batches} batch{'es' * (batches > 1)} older"
    fault("B1", words, "exact: no file is swallowed")(rolled_back(batches))


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
    VERBS["reset"](trial.tables[1], trial.lake, trial._spark, VerbRequest())
    trial.go()
    return trial.holds()
