"""Each pin has a reason that still holds; when one fails, the pin may go."""

import configparser
import importlib.metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet


def required(package):
    lines = importlib.metadata.requires("medallion-assets")
    return next(r.specifier for r in map(Requirement, lines) if r.name == package and not r.marker)


def test_delta_spark_refuses_any_pyspark_newer_than_the_pinned_one():
    theirs = next(
        r.specifier
        for r in map(Requirement, importlib.metadata.requires("delta-spark"))
        if r.name == "pyspark"
    )
    assert theirs.contains("4.2.0")
    assert not theirs.contains("4.2.1")
    assert required("pyspark") == SpecifierSet("==4.2.0")


def test_delta_spark_is_the_one_whose_jars_exist():
    assert required("delta-spark") == SpecifierSet("==4.4.0")


def test_pandas_3_is_kept_out_since_pyspark_does_not_support_it():
    assert not required("pandas").contains("3.0.0")


def test_dagster_and_its_integrations_move_together():
    assert required("dagster").contains("1.13.27")
    assert not required("dagster").contains("1.14.0")


def test_pyproject_leaves_workspace_yaml_in_force():
    text = Path("pyproject.toml").read_text()
    assert "\n[tool.dagster" not in text
    assert "\n[tool.dg" not in text
    assert configparser.ConfigParser().read("setup.cfg") == ["setup.cfg"]
