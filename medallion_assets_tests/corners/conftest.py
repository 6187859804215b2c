"""The corners share the fixtures of the sources' tests."""

from medallion_assets_tests.sources.conftest import autoload, landed, refused, rows

__all__ = ["autoload", "landed", "refused", "rows"]
