"""Tables by name: ``pipeline.layer.table`` in SQL, for every Delta table of the lake, without a metastore.

Each pipeline is a Spark catalog of its own that lives in memory and points at the lake's folders: its
tables are whatever lies there, so that it cannot disagree with them and needs no upkeep. For others they can
be registered in a Hive metastore as well, as ``pipeline_layer.table``; nothing of ours reads them there.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlglot
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp
from sqlglot.errors import SqlglotError

from medallion_assets.settings import user_of

LAYERS = ("bronze", "silver", "gold", "quarantine")
DELTA = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_NAMED: dict[tuple[str, str, str, str], Any] = {}
"""The tables that a JVM's catalogs know already, by session, pipeline, layer and table."""
_LAKES: dict[str, Path] = {}
"""The lake each session's names are of."""


def name_tables(spark: SparkSession, lake: Path) -> list[str]:
    """Make the lake's tables readable by name in this session; gives the names that are new.

    Names of another lake, as of a user whose schema was set before, are no names any more.

    Args:
        spark: The session; others of the same JVM do not see the names.
        lake: The folder that holds every pipeline's tables.
    """
    session = _identity(spark)
    if _LAKES.setdefault(session, lake) != lake:
        _forget_names(spark, session)
        _LAKES[session] = lake
    found = [p for layer in LAYERS for p in lake.glob(f"*/{layer}/*/_delta_log")]
    new = [p.parent for p in found if _key(session, p.parent) not in _NAMED]
    for table in new:
        _name(spark, session, table)
        _register(spark, lake, table)
    return [".".join(table.parts[-3:]) for table in new]


DEFAULT, LAYER = "default", "bronze"
"""The pipeline and layer of a table that is called by a bare name, as loads have it."""


def asked(spark: SparkSession, statement: str) -> DataFrame:
    """Return the rows of a query, in which a bare name may be a table of ``default.bronze``.

    ``layer.table`` is a table of ``default``. Temporary views and tables of the session go before both.
    """
    for start, prefix in sorted(_short_names(spark, statement), reverse=True):
        statement = statement[:start] + prefix + statement[start:]
    return spark.sql(statement)


def _short_names(spark: SparkSession, statement: str) -> Iterator[tuple[int, str]]:
    """Return where a statement calls a table of ``default`` by a part of its name, and the part it lacks."""
    session = _identity(spark)
    ours = {key[2:] for key in _NAMED if key[:2] == (session, DEFAULT) and key[3]}
    # SHOW is nothing that sqlglot reads, and it warns of that.
    is_read = not statement.lstrip().upper().startswith("SHOW")
    try:
        tree = sqlglot.parse_one(statement, dialect="databricks") if ours and is_read else exp.Select()
    except SqlglotError:
        # Spark says what is wrong with it, or reads what sqlglot cannot.
        return
    made = {id(table) for table in tree.this.find_all(exp.Table)} if isinstance(tree, exp.Create) else {}
    there = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        name = f"{table.db}.{table.name}" if table.db else table.name
        is_ours = not table.catalog and (table.db or LAYER, table.name) in ours
        start = (table.args.get("db") or table.this).meta.get("start")
        if not is_ours or start is None or id(table) in made or name.lower() in there:
            continue
        if not spark.catalog.tableExists(name):
            yield start, f"{DEFAULT}." if table.db else f"{DEFAULT}.{LAYER}."


METASTORE = "spark.hadoop.hive.metastore.uris"


def metastore_options(catalog: str) -> dict[str, str]:
    """Return the options of a session that registers tables in a Hive metastore; none where it does not."""
    return {"spark.sql.catalogImplementation": "hive", METASTORE: catalog} if catalog else {}


def _register(spark: SparkSession, lake: Path, table: Path) -> None:
    """Register a table as an external one, where the session has a metastore; what fails is only logged."""
    if not spark.sparkContext.getConf().get(METASTORE):
        return
    pipeline, layer, name = table.parts[-3:]
    database = "_".join([user_of(lake), pipeline, layer]).strip("_")
    try:
        spark.sql(f"CREATE DATABASE IF NOT EXISTS `{database}`")
        location = str(table).replace("'", "\\'")
        spark.sql(f"CREATE TABLE IF NOT EXISTS `{database}`.`{name}` USING DELTA LOCATION '{location}'")
        known = spark.sql(f"DESCRIBE DETAIL `{database}`.`{name}`").first()
        if known is not None and known["location"].removeprefix("file:").rstrip("/") != str(table):
            logging.getLogger(__name__).warning(
                "%s.%s is registered at %s and stays there: this lake's table is %s. Drop the name in the "
                "metastore, which keeps its files, to have it registered again.",
                database, name, known["location"], table,
            )  # fmt: skip
    except Exception as problem:
        message = "%s.%s was not registered in the metastore; the table itself is whole: %s"
        logging.getLogger(__name__).warning(message, database, name, str(problem).partition("\n")[0][:300])


def _forget_names(spark: SparkSession, session: str) -> None:
    """Give each pipeline of the session that has names a catalog without any in the place of its own."""
    pipelines = {pipeline for known, pipeline, _, table in _NAMED if known == session and table}
    for key in [key for key in _NAMED if key[0] == session and key[1] in pipelines]:
        del _NAMED[key]
    for pipeline in pipelines:
        _catalog(spark, session, pipeline)


def _identity(spark: SparkSession) -> str:
    state: Any = spark._jsparkSession
    return f"{spark.sparkContext.applicationId}/{state.sessionUUID()}"


def _key(session: str, table: Path) -> tuple[str, str, str, str]:
    pipeline, layer, name = table.parts[-3:]
    return (session, pipeline, layer, name)


def _name(spark: SparkSession, session: str, table: Path) -> None:
    pipeline, layer, name = table.parts[-3:]
    jvm: Any = spark._jvm
    properties = jvm.java.util.HashMap()
    for key, value in {"provider": "delta", "location": str(table), "external": "true"}.items():
        properties.put(key, value)
    connector = jvm.org.apache.spark.sql.connector
    identity = connector.catalog.Identifier.of(_array(spark, jvm.java.lang.String, layer), name)
    columns = _array(spark, connector.catalog.Column)
    parts = _array(spark, connector.expressions.Transform)
    _catalog(spark, session, pipeline).createTable(identity, columns, parts, properties)
    _NAMED[_key(session, table)] = name


def _catalog(spark: SparkSession, session: str, pipeline: str) -> Any:
    key = (session, pipeline, "", "")
    if key not in _NAMED:
        jvm: Any = spark._jvm
        state: Any = spark._jsparkSession.sessionState()
        spark.conf.set(f"spark.sql.catalog.{pipeline}", DELTA)
        java: Any = spark.sparkContext._jsc
        memory = jvm.org.apache.spark.sql.catalyst.catalog
        inner = memory.InMemoryCatalog(java.sc().getConf(), state.newHadoopConf())
        tables = jvm.org.apache.spark.sql.execution.datasources.v2.V2SessionCatalog(
            memory.SessionCatalog(inner)
        )
        # Delta's catalog only adds what Delta can do to one that knows the tables.
        state.catalogManager().catalog(pipeline).setDelegateCatalog(tables)
        for layer in LAYERS:
            tables.createNamespace(_array(spark, jvm.java.lang.String, layer), jvm.java.util.HashMap())
        _NAMED[key] = tables
    return _NAMED[key]


def _array(spark: SparkSession, kind: Any, *values: str) -> Any:
    gateway: Any = spark.sparkContext._gateway
    made = gateway.new_array(kind, len(values))
    for position, value in enumerate(values):
        made[position] = value
    return made
