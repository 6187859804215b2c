"""One machine is tuned; a cluster keeps what is its owner's to set; the user's options win."""

import os
from pathlib import Path

import pytest

from medallion_assets.session.start import (
    ATTEMPTS,
    DRIVER,
    SAFE,
    TUNED,
    WHOLE_BYTES,
    archive_flags,
    session_options,
)

JAVA = ("spark.driver.extraJavaOptions", SAFE["spark.driver.extraJavaOptions"])
JARS = [Path("a.jar"), Path("b.jar")]


def test_one_machine_is_tuned_and_its_jars_are_on_the_class_path():
    options = session_options(True, JARS, ["-Xshare:auto"], {})
    java = {"spark.driver.extraJavaOptions": "-Duser.timezone=UTC -Xshare:auto"}
    assert options.items() >= (SAFE | DRIVER | TUNED | java).items()
    assert options["spark.driver.extraClassPath"] == "a.jar:b.jar"
    assert "spark.jars.packages" not in options


@pytest.mark.parametrize(("mask", "told"), [(0o077, "077"), (0o022, "022"), (0o002, "002")])
def test_what_java_writes_is_as_private_as_what_this_process_writes(mask, told):
    before = os.umask(mask)
    try:
        assert session_options(True, JARS, [], {})["spark.hadoop.fs.permissions.umask-mode"] == told
        assert os.umask(mask) == mask
    finally:
        os.umask(before)


def test_executors_of_a_cluster_fetch_the_jars_and_reach_the_driver_by_its_own_address():
    options = session_options(False, JARS, ["-Xshare:auto"], {})
    assert options.items() >= (SAFE | DRIVER | {"spark.jars": "a.jar,b.jar"}).items() - {JAVA}
    assert not {*TUNED, "spark.executor.memory"} & {*options}


def test_java_reads_times_in_utc_whatever_else_it_is_told():
    options = session_options(False, JARS, [], {"spark.executor.extraJavaOptions": "-XX:+UseZGC"})
    assert options["spark.executor.extraJavaOptions"] == "-Duser.timezone=UTC -XX:+UseZGC"


def test_what_the_user_sets_wins():
    assert (
        session_options(True, JARS, [], {"spark.sql.shuffle.partitions": "9"})["spark.sql.shuffle.partitions"]
        == "9"
    )


def written(flags):
    return Path(flags[0].removeprefix("-XX:ArchiveClassesAtExit="))


def test_the_archive_is_made_once_and_mapped_in_after(tmp_path):
    archive = written(archive_flags(tmp_path, "java", []))
    with archive.open("wb") as file:
        file.truncate(WHOLE_BYTES)
    assert archive_flags(tmp_path, "java", [])[0] == f"-XX:SharedArchiveFile={archive}"


def test_an_archive_of_a_session_that_did_little_is_made_anew_but_not_for_ever(tmp_path):
    tried = []
    for _ in range(ATTEMPTS):
        tried.append(written(archive_flags(tmp_path, "java", [])))
        tried[-1].touch()
    assert len(set(tried)) == ATTEMPTS
    assert archive_flags(tmp_path, "java", [])[0] == f"-XX:SharedArchiveFile={tried[-1]}"
