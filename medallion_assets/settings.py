"""Where the lake, the landing zones and Spark are: one typed object, environment first."""

from pathlib import Path

from platformdirs import user_cache_path
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Everything a deployment may set; each field is read from ``MEDALLION_<NAME>``.

    Table paths are ``<lake>/<pipeline>/<layer>/<table>``, quarantines
    ``<lake>/<pipeline>/quarantine/<table>``, landing zones ``<landing>/<pipeline>/<source>/``.
    """

    model_config = SettingsConfigDict(env_prefix="MEDALLION_", extra="ignore", frozen=True)

    lake: Path = Field(
        default=Path("lake"), description="Folder that holds every table, ledger and checkpoint."
    )
    landing: Path = Field(default=Path("landing"), description="Folder that holds the landing zones.")
    spark_master: str = Field(
        default="local[*]", description="Spark master; others than local[...] stay untuned."
    )
    spark_conf: dict[str, str] = Field(default={}, description="Spark or storage options, as JSON; they win.")
    cache: Path = Field(
        default=user_cache_path("medallion-assets"), description="Jars and the class-data archive."
    )
    settle_seconds: float = Field(default=0.0, ge=0, description="Age a file needs before it is taken.")
    sample_rows: int = Field(
        default=0, ge=0, le=20, description="Refused rows a check shows in full; 0 shows where they are."
    )

    @property
    def is_one_machine(self) -> bool:
        """Return true where Spark runs inside this process, so that tuning it is ours to do."""
        return self.spark_master.startswith("local")

    def resolved(self) -> "Settings":
        """Return the same settings with absolute folders, since Spark's checkpoints keep absolute paths."""
        folders = {name: getattr(self, name).expanduser().resolve() for name in ("lake", "landing", "cache")}
        return self.model_copy(update=folders)


def current_settings() -> Settings:
    """Return the settings this process's environment asks for."""
    return Settings().resolved()
