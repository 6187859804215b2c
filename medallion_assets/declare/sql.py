"""A query written as SQL over the names of its inputs."""

from collections.abc import Mapping

from pyspark.sql import DataFrame


def answered(answer: DataFrame | str, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """Return a query's answer: the frame it gave, or what its SQL says over the inputs by their names.

    The inputs are temporary views of the micro-batch's own session, so that nothing else sees them.
    """
    if isinstance(answer, DataFrame):
        return answer
    for name, frame in inputs.items():
        frame.createOrReplaceTempView(name)
    return next(iter(inputs.values())).sparkSession.sql(answer)
