"""Where the lake, the landing zones and Spark are: one typed object, environment first."""

import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from platformdirs import user_cache_path
from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from medallion_assets.storage import is_object, path_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDERS = ("lake", "landing", "cache")
USERS = "_users"
"""The folder of the lake, and of landing, that holds a folder for each user; no pipeline has this name."""
TAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "lake": (("s3://",), "lakes are local or mounted folders, or prefixes of a bucket as s3://bucket/prefix"),
    "landing": (
        ("s3://", "gs://", "az://", "abfs://", "abfss://", "memory://"),
        "landing zones are local or mounted folders, or prefixes as s3://, gs:// or abfss:// with a bucket",
    ),
    "cache": ((), "the cache is a local folder"),
}
"""By setting, the addresses in an object store that it may have, and what to say of others."""

SCHEMES = {"notify_webhook": ("https", "http"), "notify_smtp": ("smtps", "smtp+starttls", "smtp")}
"""The addresses messages may be sent to."""
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""How an address that is no path begins, as ``s3://`` does."""


class Settings(BaseSettings):
    """Everything a deployment may set: ``MEDALLION_<NAME>``, else ``[tool.medallion]`` in pyproject.toml.

    Table paths are ``<lake>/<pipeline>/<layer>/<table>``, quarantines
    ``<lake>/<pipeline>/quarantine/<table>``, landing zones ``<landing>/<pipeline>/<source>/``. With
    ``user_schema`` both folders are that user's: ``<lake>/_users/<user_schema>``, and so of landing.
    """

    # An error names the setting and not its value: some hold passwords.
    model_config = SettingsConfigDict(
        env_prefix="MEDALLION_", extra="ignore", frozen=True, hide_input_in_errors=True
    )

    pipelines: str = Field(
        default="", description="Module that has the project's pipelines, as package.module."
    )
    lake: Path = Field(
        default=Path("lake"),
        description="Folder, or s3:// address, that holds every table, ledger and checkpoint.",
    )
    landing: Path = Field(
        default=Path("landing"),
        description="Folder, or address in an object store, that holds the landing zones.",
    )
    catalog: str = Field(
        default="", description="Hive metastore that tables are registered in, as thrift://host:9083."
    )
    user_schema: str = Field(
        default="", description="A user's name: their tables and landing zones are apart from all others'."
    )
    spark_master: str = Field(
        default="local[*]", description="Spark master: local[...], spark://, yarn or k8s://."
    )
    spark_conf: dict[str, str] = Field(default={}, description="Spark or storage options, as JSON; they win.")
    kafka_conf: dict[str, SecretStr] = Field(
        default={}, description="Options of Kafka's client (librdkafka's), as JSON; security.protocol, ..."
    )
    cache: Path = Field(
        default=user_cache_path("medallion-assets"), description="Jars and the class-data archive."
    )
    settle_seconds: float = Field(default=0.0, ge=0, description="Age a file needs before it is taken.")
    sample_rows: int = Field(
        default=0, ge=0, le=20, description="Refused rows a check shows in full; 0 shows where they are."
    )

    parse_on_executors_bytes: int | None = Field(
        default=None, ge=0, description="Landed bytes executors parse; 256 MiB and more, none where local."
    )
    events_days: int = Field(default=365, ge=1, description="Days the event log keeps what runs did.")
    runs_days: int = Field(default=30, ge=1, description="Days Dagster keeps a run that has ended.")
    notify_webhook: SecretStr = Field(
        default=SecretStr(""), description="Address a message about a failed run is posted to, as JSON."
    )
    notify_mail_to: str = Field(default="", description="Who gets a mail about a failed run, with commas.")
    notify_mail_from: str = Field(default="", description="Sender of such mails.")
    notify_smtp: SecretStr = Field(
        default=SecretStr("smtp://localhost:25"),
        description="Mail server, as smtps://user:password@host; also smtp+starttls:// or smtp://.",
    )
    ui_url: str = Field(default="", description="Address of the Dagster UI, for links in messages.")
    max_bytes_per_trigger: int = Field(
        default=1 << 30, ge=1, description="Bytes of upstream's files a batch takes, in whole commits."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources of settings, the strongest first: arguments, environment, pyproject.toml."""
        return init_settings, env_settings, _ProjectSettings(settings_cls)

    @field_validator(*FOLDERS, mode="before")
    @classmethod
    def _is_a_folder(cls, value: Any, info: ValidationInfo) -> Any:
        # Spark, deltalake and the storage port all know this one of the two names of a bucket.
        text = re.sub("^s3a://", "s3://", str(value))
        scheme = SCHEME.match(text)
        if not scheme:
            return value
        takes, which = TAKES[str(info.field_name)]
        if not is_object(text) or not text.startswith(takes):
            raise ValueError(f"{value} is a {scheme[1]}: address, and {which}")
        return path_of(text.rstrip("/"))

    @field_validator("catalog")
    @classmethod
    def _is_a_metastore(cls, value: str) -> str:
        if value and not re.fullmatch(r"thrift://[^/:]+:\d+", value):
            raise ValueError(
                f"{value!r} is no Hive metastore, thrift://host:9083; others, as Unity Catalog, were not "
                "tried: make their external tables there, over the folders of the lake"
            )
        return value

    @field_validator("user_schema")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if value and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_]{0,63}", value):
            raise ValueError(
                f"{value!r} cannot be a user's schema: it becomes a folder of the lake, so that it is "
                "made of at most 64 ASCII letters, digits and _, the first of them a letter or digit"
            )
        # As SQL has schema names; and a disk that ignores case would give two users one folder.
        return value.lower()

    @field_validator("spark_master")
    @classmethod
    def _is_no_connect_server(cls, value: str) -> str:
        if value.startswith("sc://"):
            raise ValueError(
                f"{value} is a Spark Connect server, and this engine needs a driver of its own: it commits "
                "batches through Java objects that Connect does not give. Name the cluster itself (spark://, "
                "yarn, k8s://); clients of a Connect server can read the lake's tables by their paths"
            )
        return value

    @field_validator("notify_webhook", "notify_smtp")
    @classmethod
    def _is_an_address(cls, value: SecretStr, info: ValidationInfo) -> SecretStr:
        # The message names no part of the value, which is a secret.
        schemes = SCHEMES[str(info.field_name)]
        parts = urlsplit(value.get_secret_value())
        if value and (parts.scheme not in schemes or not parts.hostname):
            raise ValueError(f"it is no address that begins with {', '.join(f'{s}://' for s in schemes)}")
        if parts.scheme == "smtp" and parts.password:
            raise ValueError("smtp:// would send the password in the clear: say smtps:// or smtp+starttls://")
        return value

    @model_validator(mode="after")
    def _has_a_sender(self) -> "Settings":
        if self.notify_mail_to and not self.notify_mail_from:
            raise ValueError("notify_mail_to needs notify_mail_from, the sender of the mails")
        return self

    @property
    def is_one_machine(self) -> bool:
        """Return true where Spark runs inside this process, so that tuning it is ours to do."""
        return self.spark_master == "local" or self.spark_master.startswith("local[")

    def resolved(self) -> "Settings":
        """Return the same settings with absolute folders, the user's own where there is a ``user_schema``.

        Spark's checkpoints keep absolute paths.
        """
        folders = {name: getattr(self, name).expanduser().resolve() for name in FOLDERS}
        return self.model_copy(
            update=folders | {name: self._own(folders[name]) for name in ("lake", "landing")}
        )

    def _own(self, folder: Path) -> Path:
        own = (USERS, self.user_schema)
        return folder.joinpath(*own) if self.user_schema and folder.parts[-2:] != own else folder


def current_settings() -> Settings:
    """Return the settings this process's environment asks for."""
    return Settings().resolved()


def user_of(lake: Path) -> str:
    """Return whose lake this is, empty for the shared one."""
    return lake.name if lake.parent.name == USERS else ""


def project_folder(start: Path | None = None) -> Path | None:
    """Return the nearest folder, from ``start`` upwards, whose pyproject.toml has ``[tool.medallion]``."""
    here = (start or Path.cwd()).resolve()
    return next((folder for folder in (here, *here.parents) if _project_table(folder) is not None), None)


def _project_table(folder: Path) -> dict[str, Any] | None:
    file = folder / "pyproject.toml"
    if not file.is_file():
        return None
    table = tomllib.loads(file.read_text("utf-8")).get("tool", {}).get("medallion")
    return table if isinstance(table, dict) else None


class _ProjectSettings(PydanticBaseSettingsSource):
    """The settings of ``[tool.medallion]``; relative folders, the default ones too, are in the project's."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        """Return one field's value, None where pyproject.toml does not set it."""
        return self().get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return every value that pyproject.toml sets."""
        folder = project_folder()
        table = (_project_table(folder) or {}) if folder else {}
        return {
            k: str(folder / Path(v).expanduser()) if folder and k in FOLDERS and not SCHEME.match(v) else v
            for k, v in table.items()
        }
