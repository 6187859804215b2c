"""Spark's options for a lake in S3, from the variables that ``deltalake`` and the storage port read as well.

Credentials are no options: Hadoop's client reads ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY`` and
``AWS_SESSION_TOKEN`` from the environment itself, so that no list of processes or options shows them.
"""

from collections.abc import Mapping

TRUE = ("true", "1", "yes", "on", "t", "y")

S3 = {
    # One address for Spark, deltalake and the storage port; Hadoop itself knows s3a:// alone.
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
    # A commit of Delta is a put of its own; this committer would add requests, and files of its own.
    "spark.hadoop.fs.s3a.committer.magic.enabled": "false",
    # Delta's own store of commits in S3 looks and then writes: a second writer would overwrite a commit.
    "spark.delta.logStore.s3.impl": "medallion.PutIfAbsentLogStore",
    # Spark renames a checkpoint's files, which in S3 is a copy and a delete: three requests for one.
    "spark.sql.streaming.checkpointFileManagerClass": "medallion.PutIfAbsentCheckpoints",
}


def s3_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a session whose lake is in S3.

    Args:
        environment: ``AWS_ENDPOINT_URL``, ``AWS_REGION``, ``AWS_VIRTUAL_HOSTED_STYLE_REQUEST`` and
            ``AWS_SKIP_SIGNATURE``, or what else is set of their other names.
    """
    options = dict(S3)
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if region:
        options["spark.hadoop.fs.s3a.endpoint.region"] = region
    endpoint = environment.get("AWS_ENDPOINT_URL") or environment.get("AWS_ENDPOINT")
    if endpoint:
        options["spark.hadoop.fs.s3a.endpoint"] = endpoint
        options["spark.hadoop.fs.s3a.connection.ssl.enabled"] = str(not endpoint.startswith("http:")).lower()
        # As the other two do: the bucket in the path, unless it is to be part of the host's name.
        in_path = environment.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() not in TRUE
        options["spark.hadoop.fs.s3a.path.style.access"] = str(in_path).lower()
    if environment.get("AWS_SKIP_SIGNATURE", "").lower() in TRUE:
        options["spark.hadoop.fs.s3a.aws.credentials.provider"] = (
            "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
        )
    return options
