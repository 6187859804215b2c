"""One run of a chain in S3, for tests that kill or stop it at a request.

    python -m medallion_assets_tests.crash.requests_to_s3 EXPIRES

Leases expire after so many seconds; the last line is what went wrong, as JSON.
"""

import json
import sys

from medallion_assets.pytest_plugin import Lakehouse
from medallion_assets.runs.run import run_tables
from medallion_assets.session import start_session
from medallion_assets.session.start import OF_FEW_ROWS
from medallion_assets.settings import Settings
from medallion_assets.storage import claims, path_of
from medallion_assets_tests.faults.trial import shop_tables
from medallion_assets_tests.s3_server import BUCKET
from medallion_assets_tests.shop import totals_file

LAKE, LANDING = f"s3://{BUCKET}/lake", f"s3://{BUCKET}/landing"
INSTALMENTS = ((5, -1, 7, -2), (3, -4, 5))


def lands(house, number):
    """Land an instalment, with a record that is malformed."""
    text = totals_file(*INSTALMENTS[number], start=10 * number) + '{"id": \n'
    house.land("shop/orders", f"{number}.json", text)


def leases_expire(after, beat):
    """Have a lease of a holder that is silent expire after so many seconds."""
    claims.Timing.__init__.__defaults__ = (beat, after, 0.02)


def session():
    """Return a session for the lake."""
    settings = Settings(lake=LAKE, landing=LANDING, spark_conf=OF_FEW_ROWS)
    return start_session(settings.resolved(), stays=True)


def run(expires):
    """Run the chain once; print what went wrong."""
    leases_expire(expires, beat=expires / 20)
    spark = session()
    house = Lakehouse(path_of(f"s3://{BUCKET}"), lambda: spark)
    outcomes = run_tables(shop_tables(settle_seconds=0), house.lake, house._spark)
    wrong = [f"{o.table.key}: {o.error or o.verdicts}" for o in outcomes if not o.is_well]
    print(json.dumps(wrong), flush=True)
    spark.stop()


if __name__ == "__main__":
    run(float(sys.argv[1]))
