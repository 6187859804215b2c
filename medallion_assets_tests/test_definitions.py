"""The code location: it loads from workspace.yaml, and its graph is the one a person agreed to."""

from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster_pyspark import LazyPySparkResource

from medallion_assets.definitions import defs
from medallion_assets.pipelines import PIPELINES

TABLES = [table for pipeline in PIPELINES.values() for table in pipeline.tables.values()]
SNAPSHOT = Path(__file__).parent / "snapshots" / "graph.txt"


def graph_as_text():
    graph = defs.resolve_asset_graph()
    lines = []
    for key in sorted(graph.get_all_asset_keys(), key=str):
        node = graph.get(key)
        lines.append(f"{key.to_user_string()}  [{', '.join(sorted(node.kinds))}]")
        lines += [f"  <- {up.to_user_string()}" for up in sorted(node.parent_keys, key=str)]
        lines += [f"  ?  {check.name}" for check in sorted(node.check_keys, key=str)]
    return "\n".join(lines) + "\n"


def test_the_graph_is_the_one_in_the_snapshot():
    assert graph_as_text() == SNAPSHOT.read_text()


def test_workspace_yaml_names_a_module_that_loads():
    entry = yaml.safe_load(Path("workspace.yaml").read_text())["load_from"][0]["python_module"]
    assert entry["module_name"] == "medallion_assets.definitions"
    # That Dagster's own processes load the file is seen in test_daemon.py.
    dg.Definitions.validate_loadable(defs)


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.key)
def test_every_table_is_described_owned_and_gated(table):
    graph = defs.resolve_asset_graph()
    node = graph.get(dg.AssetKey(table.key.split("/")))
    assert node.description.startswith("One row per ")
    assert node.owners
    assert {table.layer, "deltalake", "pyspark"} == set(node.kinds)
    assert any(check.name == "conservation" for check in node.check_keys)
    assert node.code_version
    assert (
        table.key in Path("README.md").read_text()
        or f"{table.layer}/{table.name}" in Path("README.md").read_text()
    )


def test_the_session_comes_from_dagsters_own_lazy_spark_resource():
    assert isinstance(defs.resources["spark"], LazyPySparkResource)


def test_a_chain_runs_in_one_process_and_each_table_has_a_pool_of_its_own():
    assert defs.resolve_job_def("school_chain").executor_def.name == "in_process"
    pools = [
        p for asset in defs.assets if isinstance(asset, dg.AssetsDefinition) for p in asset.node_def.pools
    ]
    assert len(pools) == len(set(pools)) == len(TABLES)
