"""What a location names: each file once, whatever the glob, and nothing through a link."""

from pathlib import Path

import pytest

from medallion_assets.sources.discovery import discover
from medallion_assets.sources.listing import listing
from medallion_assets.sources.options import Source

JSON = Source("s", "json")


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    """Three files, each a folder deeper, and one in a hidden folder."""
    for name in ("1.json", "a/2.json", "a/b/3.json", "a/_b/4.json", "a/.b/5.json"):
        file = tmp_path / "zone" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('{"a":1}\n')
    return tmp_path / "zone"


def found(zone: Path, pattern: str) -> list[str]:
    """What a glob below the zone names, refused or not."""
    return [file.path for file in listing(zone / pattern, zone, JSON, {}).new]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*", ["1.json", "a/2.json", "a/b/3.json"]),
        ("**", ["1.json", "a/2.json", "a/b/3.json"]),
        ("**/*", ["1.json", "a/2.json", "a/b/3.json"]),
        ("**/**/*.json", ["1.json", "a/2.json", "a/b/3.json"]),
        ("*.json", ["1.json"]),
        ("*/*.json", ["a/2.json"]),
        ("a/[a-c]/?.json", ["a/b/3.json"]),
        ("**/b", ["a/b/3.json"]),
        ("a/.b/*", ["a/.b/5.json"]),
        ("a/_*/*", ["a/_b/4.json"]),
        ("nothing/*", []),
    ],
)
def test_a_glob_names_each_file_once(zone, pattern, names):
    assert found(zone, pattern) == names


def test_files_a_glob_finds_twice_are_admitted_once(zone, tmp_path):
    assert discover(zone / "**", tmp_path / "ledger", JSON).records == 3


@pytest.mark.parametrize("pattern", ["**", "**/*.json", "*/*.json", "*/secret.json"])
def test_a_glob_never_leads_through_a_link_out_of_the_landing_zone(zone, pattern, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.json").write_text('{"a":1}\n')
    (zone / "out").symlink_to(tmp_path / "outside")
    assert not [name for name in found(zone, pattern) if name.endswith("secret.json")]


def test_links_that_lead_round_in_circles_are_not_followed(zone):
    for name in ("x", "y", "a/z"):
        (zone / name).symlink_to(zone)
    assert found(zone, "**/*.json") == ["1.json", "a/2.json", "a/b/3.json"]


def test_the_way_to_the_landing_zone_may_be_a_link_of_the_users_own(zone, tmp_path):
    (tmp_path / "data").symlink_to(zone)
    assert listing(tmp_path / "data" / "*.json", tmp_path / "data", JSON, {}).matched == 1
    assert listing(tmp_path / "data", tmp_path / "data", JSON, {}).matched == 3


def test_a_file_that_goes_while_the_folder_is_listed_is_passed_over(zone):
    (zone / "a/6.json").write_text('{"a":1}\n')

    class Goes(dict):
        """What is known, which takes three files away once the second is asked for."""

        def get(self, path, otherwise=None):
            if path.endswith("2.json"):
                for name in ("a/6.json", "a/b/3.json"):
                    (zone / name).unlink()
                (zone / "a/b").rmdir()
            return otherwise

    names = [file.path for file in listing(zone, zone, JSON, Goes()).new]
    assert names == ["1.json", "a/2.json"]
