"""The reference pipelines on a whole deployment, whose parts are killed, have the rows of one machine."""

import pytest

from medallion_assets_tests.in_s3 import needs_jars


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@needs_jars
def test_a_worker_a_driver_and_the_store_are_killed_and_all_tables_equal_the_laptops(tmp_path, capfd):
    for name in ("boto3", "moto.server", "psycopg2"):
        pytest.importorskip(name, reason=f"{name.partition('.')[0]} is not installed")
    from medallion_assets_tests import stack

    failed = stack.main(tmp_path / "stack")
    said = capfd.readouterr().out
    assert not failed, said
    assert said.count("equal the laptop's") == len(stack.INSTALMENTS)
