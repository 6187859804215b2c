"""SQL statements that load: COPY INTO as Databricks writes it, CREATE TABLE of a query or of columns."""

from dataclasses import dataclass, field
from typing import Any, NoReturn

import sqlglot
from pyspark.sql import DataFrame, SparkSession
from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from medallion_assets.session import start_session
from medallion_assets.session.catalog import asked, name_tables
from medallion_assets.settings import current_settings
from medallion_assets.sources.copy_into import CopyResult, copy_into
from medallion_assets.sources.create_table import create_table, create_table_as, drop_table
from medallion_assets.sources.errors import SourceError, first_line
from medallion_assets.sources.select_list import DIALECT

QUERIES = ("SELECT", "WITH", "SHOW", "DESCRIBE", "VALUES")
CLAUSES = ("FILEFORMAT", "VALIDATE", "FILES", "PATTERN", "FORMAT_OPTIONS", "COPY_OPTIONS")
TEXTS = (TokenType.STRING, TokenType.IDENTIFIER)
BRACKETS = {"(": ")", "[": "]"}

REFUSED = {
    "BY": "BY POSITION: columns are matched by their names; name those of a headerless file in the SELECT",
    "(": "column list: name the columns in the SELECT",
    "WITH": "WITH CREDENTIAL: credentials of an object store come from the environment",
    "WHERE": "WHERE: a load accounts for each record; filter in a table's query",
}
"""Clauses of COPY INTO that have no counterpart here, by their first word."""

INSTEAD = {
    "USE": " Tables are named pipeline.layer.table in every statement.",
    "INSERT": " Rows come by files, which are counted: land one that holds these rows, or make a table "
    "of them with CREATE TABLE ... AS SELECT ... FROM VALUES (...).",
}
"""What to do in place of a statement that is not carried out, by its first word."""


def sql(statement: str, *, spark: SparkSession | None = None) -> CopyResult | DataFrame | int | None:
    """Carry out one SQL statement on the lake.

    Args:
        statement: ``COPY INTO``, ``CREATE [OR REPLACE] TABLE ... AS``, ``CREATE TABLE [IF NOT EXISTS] t
            (columns)``, ``DROP TABLE [IF EXISTS] t``, ``CREATE [OR REPLACE] TEMP VIEW v AS``, or a query. A
            table is ``pipeline.layer.table``, ``layer.table`` of ``default``, or bare, of ``default.bronze``.
        spark: The session to use; the project's own where it is None and one is needed.

    Returns:
        What ``copy_into``, ``create_table_as`` or ``create_table`` return; of a query or view its rows; None
        of DROP.

    Raises:
        SourceError: It is another statement, or has a clause without a counterpart; nothing was changed.
    """
    words = _Words.of(statement)
    if words.skip("COPY", "INTO"):
        return copy_into(**copy_arguments(words), spark=spark)
    if words.skip("CREATE"):
        return _create(words, spark)
    if words.skip("DROP", "TABLE"):
        may_lack = words.skip("IF", "EXISTS")
        drop_table(words.dotted(), may_lack=may_lack)
        return None
    if words.peek() not in QUERIES:
        hint = INSTEAD.get(words.peek(), "")
        raise SourceError(
            f"a statement that begins with {words.peek() or 'nothing'} is not carried out here: COPY INTO, "
            f"CREATE TABLE, DROP TABLE, CREATE TEMP VIEW and queries are.{hint} Nothing was changed."
        )
    return asked(_with_names(spark), statement.strip().rstrip(";"))


def copy_statement(statement: str) -> dict[str, Any]:
    """Return a COPY INTO statement as the arguments of ``copy_into``.

    Raises:
        SourceError: It cannot be read, or has a clause without a counterpart.
    """
    words = _Words.of(statement)
    words.expect("COPY")
    words.expect("INTO")
    return copy_arguments(words)


@dataclass
class _Words:
    """A statement's tokens, and how far they are read."""

    text: str
    tokens: list[Token] = field(repr=False)
    at: int = 0

    @staticmethod
    def of(text: str) -> "_Words":
        try:
            tokens = list(sqlglot.tokenize(text, dialect=DIALECT))
        except SqlglotError as error:
            raise SourceError(f"not SQL: {first_line(error)}") from error
        while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
            tokens.pop()
        return _Words(text, tokens)

    def peek(self) -> str:
        """Return the next word in capitals, empty at the end and for a text."""
        ended = self.at >= len(self.tokens) or self.tokens[self.at].token_type in TEXTS
        return "" if ended else self.tokens[self.at].text.upper()

    def skip(self, *words: str) -> bool:
        """Read these words where they come next."""
        start = self.at
        for word in words:
            if self.peek() != word:
                self.at = start
                return False
            self.at += 1
        return True

    def expect(self, word: str) -> None:
        if not self.skip(word):
            self.refuse(f"{word} is expected")

    def value(self) -> str:
        """Read a text, a name or a number."""
        if self.at >= len(self.tokens) or self.peek() in ("(", ")", ",", "="):
            self.refuse("a value is expected")
        self.at += 1
        return self.tokens[self.at - 1].text

    def dotted(self) -> str:
        """Read a name that may have parts."""
        name = self.value()
        while self.skip("."):
            name += "." + self.value()
        return name

    def refuse(self, words: str) -> NoReturn:
        rest = self.text[self.tokens[self.at].start :] if self.at < len(self.tokens) else "the end"
        raise SourceError(f"{words}, at {rest[:40]!r}. Nothing was read or written.")


def copy_arguments(words: _Words) -> dict[str, Any]:
    """Return what follows COPY INTO as the arguments of ``copy_into``."""
    arguments: dict[str, Any] = {"table_name": words.dotted()}
    if words.peek() in REFUSED:
        words.refuse(f"COPY INTO takes no {REFUSED[words.peek()]}")
    words.expect("FROM")
    if words.skip("("):
        words.expect("SELECT")
        arguments["select"] = _select(words)
        arguments["data_source"] = words.value()
        if not words.skip(")"):
            words.refuse(f"COPY INTO takes no {REFUSED.get(words.peek(), 'further clause in its SELECT')}")
    else:
        arguments["data_source"] = words.value()
    while words.at < len(words.tokens):
        clause = words.peek()
        if clause not in CLAUSES or clause.lower() in arguments:
            words.refuse(f"COPY INTO takes no {REFUSED.get(clause, clause + ' here')}")
        words.at += 1
        arguments[clause.lower()] = _clause(words, clause)
    if "fileformat" not in arguments:
        words.refuse("FILEFORMAT is expected")
    arguments["source_format"] = arguments.pop("fileformat")
    return arguments


def _clause(words: _Words, clause: str) -> Any:
    if clause == "VALIDATE":
        rows = "ALL" if words.peek() in ("", *CLAUSES) else words.value()
        words.skip("ROWS")
        return rows
    words.skip("=")
    if clause in ("FILEFORMAT", "PATTERN"):
        return words.value()
    words.expect("(")
    values: dict[str, str] = {}
    while not words.skip(")"):
        name = words.dotted()
        values[name] = words.value() if words.skip("=") else ""
        words.skip(",")
    return list(values) if clause == "FILES" else values


def _select(words: _Words) -> list[str]:
    """Read the columns up to FROM, each as it is written."""
    columns: list[str] = []
    closing: list[str] = []
    start = words.at
    while True:
        if words.at >= len(words.tokens):
            words.refuse("FROM is expected")
        word = words.peek()
        if word in BRACKETS:
            closing.append(BRACKETS[word])
        elif closing and word == closing[-1]:
            closing.pop()
        elif not closing and word in (",", "FROM"):
            if words.at == start:
                words.refuse("a column is expected")
            columns.append(words.text[words.tokens[start].start : words.tokens[words.at - 1].end + 1])
            start = words.at + 1
        words.at += 1
        if not closing and word == "FROM":
            return columns


def _create(words: _Words, spark: SparkSession | None) -> DataFrame | int:
    replace = words.skip("OR", "REPLACE")
    if words.skip("TEMP", "VIEW") or words.skip("TEMPORARY", "VIEW"):
        session, view = _with_names(spark), words.value()
        asked(session, words.text.strip().rstrip(";"))
        return session.table(view)
    words.expect("TABLE")
    if_not_exists = words.skip("IF", "NOT", "EXISTS")
    name = words.dotted()
    if words.peek() == "(":
        return _create_empty(words, name, replace, if_not_exists, spark)
    if if_not_exists:
        words.refuse("IF NOT EXISTS is for a table of columns: a list of them is expected")
    words.skip("USING", "DELTA")
    comment = words.value() if words.skip("COMMENT") else ""
    words.expect("AS")
    query = words.text[words.tokens[words.at].start :].rstrip().rstrip(";") if words.peek() else ""
    if not query:
        words.refuse("a query is expected")
    return create_table_as(name, query, replace=replace, comment=comment, spark=_with_names(spark))


def _create_empty(
    words: _Words, name: str, replace: bool, if_not_exists: bool, spark: SparkSession | None
) -> int:
    start = words.at
    columns, comment = _in_brackets(words), ""
    while words.peek() in ("USING", "COMMENT"):
        if words.skip("COMMENT"):
            comment = words.value()
        elif not words.skip("USING", "DELTA"):
            words.refuse("tables are Delta tables: USING DELTA is expected")
    if words.at < len(words.tokens):
        words.refuse("CREATE TABLE of columns takes USING DELTA and a COMMENT; rows come by COPY INTO")
    if replace:
        words.at = start
        words.refuse("OR REPLACE is for AS SELECT: an empty table in its place would lose its rows")
    version = create_table(name, columns, if_not_exists=if_not_exists, comment=comment, spark=spark)
    _with_names(spark)
    return version


def _in_brackets(words: _Words) -> str:
    """Read the text between round brackets, unchanged."""
    start, open_ = words.at, 0
    while words.at == start or open_:
        if words.at >= len(words.tokens):
            words.refuse(") is expected")
        open_ += {"(": 1, ")": -1}.get(words.peek(), 0)
        words.at += 1
    return words.text[words.tokens[start].end + 1 : words.tokens[words.at - 1].start]


def _with_names(spark: SparkSession | None) -> SparkSession:
    """Return a session that knows the lake's tables by their names."""
    settings = current_settings()
    session = spark or start_session(settings)
    name_tables(session, settings.lake)
    return session
