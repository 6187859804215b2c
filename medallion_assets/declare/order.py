"""Which tables a request means, in the order data walks through them."""

from collections.abc import Iterable, Mapping

from medallion_assets.declare.errors import UnknownTable, nearest
from medallion_assets.declare.pipeline import Pipeline
from medallion_assets.declare.table import Table


def chosen(pipelines: Mapping[str, Pipeline], names: Iterable[str] = ()) -> list[Table]:
    """Return the tables of these pipelines and keys, upstream first; all of them for no name.

    Raises:
        UnknownTable: A name is neither a pipeline nor ``pipeline/layer/table`` (``.`` serves for ``/``).
    """
    wanted: dict[str, Table] = {}
    for name in names or pipelines:
        wanted |= _meant(pipelines, name.replace(".", "/"))
    return upstream_first(wanted.values())


def upstream_first(tables: Iterable[Table]) -> list[Table]:
    """Return the tables so that each stands after all it reads."""
    ordered: dict[str, Table] = {}
    wanted = {t.key: t for t in tables}

    def place(table: Table) -> None:
        for up in table.upstream:
            if up.key in wanted:
                place(up)
        ordered.setdefault(table.key, table)

    for table in wanted.values():
        place(table)
    return list(ordered.values())


def _meant(pipelines: Mapping[str, Pipeline], name: str) -> dict[str, Table]:
    if name in pipelines:
        return pipelines[name].tables
    for pipeline in pipelines.values():
        if name in pipeline.tables:
            return {name: pipeline.tables[name]}
    known = [*pipelines, *(key for p in pipelines.values() for key in p.tables)]
    raise UnknownTable(
        f"no pipeline or table is called {name!r}{nearest(name, known)}; there are: {', '.join(known)}"
    )
