"""Java is found and checked, and a machine without one is told how to get it."""

import os

import pytest

from medallion_assets.session.java import JavaMissing, java_command, java_version


def fake_java(folder, version):
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return folder


def test_the_java_of_java_home_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "21.0.2")))
    assert java_command() == str(tmp_path / "bin" / "java")


@pytest.mark.parametrize(("said", "version"), [("1.8.0_402", 8), ("17.0.15", 17), ("25", 25)])
def test_a_version_is_read_from_what_java_says_of_itself(tmp_path, said, version):
    assert java_version(str(fake_java(tmp_path, said) / "bin/java")) == version


def test_an_old_java_is_refused_with_advice(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "11.0.1")))
    with pytest.raises(JavaMissing, match=r"is Java 11; .*apt-get install"):
        java_command()


def test_a_machine_without_java_is_told_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep)
    with pytest.raises(JavaMissing, match=r"No Java was found.*Nothing was read"):
        java_command()
