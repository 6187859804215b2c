"""Ten thousand files, two hundred of them under odd names: each lands once."""

from itertools import product

import pytest

from medallion_assets.delta import log
from medallion_assets.delta.batches import recorded

ODD = [*" '\"%?*[]{}\\:\n\U0001f600é#&+=`"]
PLACES = ["{odd}{n}.json", "{n}{odd}.json", "a{odd}b-{n}.json", "in{odd}side/{n}.json", "{n}.{odd}.json"]
FILES = 10_000


@pytest.mark.spark
@pytest.mark.thorough
def test_ten_thousand_files_land_once_each_whatever_they_are_called(tmp_path, autoload):
    zone = tmp_path / "landing"
    odd = [place.format(odd=char, n=n) for n, (char, place) in enumerate(product(ODD, PLACES * 2))]
    names = [*odd, *(f"plain-{n}.json" for n in range(FILES - len(odd)))]
    for number, name in enumerate(names):
        path = zone / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{{"number": {number}}}\n')
    done = autoload(zone, "json")
    assert len(odd) == 200
    assert (done.files, done.rows_loaded, done.rows_unaccounted) == (FILES, FILES, 0)
    found = log.rows(done.path, "SELECT count(*) AS n, count(DISTINCT number) AS once FROM t")
    assert found == [{"n": FILES, "once": FILES}]
    assert autoload(zone, "json").files == 0


@pytest.mark.spark
def test_files_are_taken_in_micro_batches_of_as_many_bytes_as_asked(landed, autoload, rows):
    line = '{"id":1}\n'
    folder = landed(**{f"{name}__json": line * 10 for name in "abc"})
    done = autoload(folder, "json", max_bytes_per_trigger=2 * len(line) * 10)
    taken = [batch.files for batch in recorded(done.path)]
    assert (taken, done.files, len(rows(done))) == ([2, 1], 3, 30)
