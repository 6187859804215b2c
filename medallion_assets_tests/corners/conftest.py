"""The fixtures of the loaders' tests, for the corners too."""

from medallion_assets_tests.sources.conftest import autoload, landed, refused, rows

__all__ = ["autoload", "landed", "refused", "rows"]
