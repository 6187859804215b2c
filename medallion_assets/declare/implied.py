"""Rules a declaration implies besides those it names: of its keys, its static inputs, its rules of sets."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from medallion_assets.declare.expectations import Expectation, OnViolation, expect
from medallion_assets.declare.scd import Changes
from medallion_assets.declare.set_rules import SetRule
from medallion_assets.declare.table import OutputMode, Read
from medallion_assets.sources.quarantine import JOIN, KEY


def implied(
    keys: Sequence[str], reads: Sequence[tuple[str, Read]], scd: Changes | None, mode: OutputMode
) -> Iterator[Expectation]:
    """Return the rules a declaration implies: keys are there, and static rows are found."""
    windows = any(read.watermark for _, read in reads)
    named = keys if mode == "append" and not windows else ()
    for key in (*named, *((*scd.keys, scd.sequence_by) if scd else ())):
        yield replace(expect(f"{key}_present", f"`{key}` IS NOT NULL"), reason=KEY)
    for name, read in reads:
        if read.unmatched and not read.asked_by:
            outcome: OnViolation = "warn" if read.unmatched == "keep" else "quarantine"
            yield replace(expect(f"{name}_matched", f"_check_{name}_matched", outcome), reason=JOIN)
    if scd:
        yield replace(expect("untied_sequence", "_check_untied"), reason=KEY)


def by_row(rules: Sequence[SetRule]) -> Iterator[Expectation]:
    """Return what rows are judged by: the columns these predicates speak of are made for each batch."""
    for rule in rules:
        if rule.judges_rows:
            refers = rule.kind == "references"
            column = f"_check_{rule.name}" + ("_matched" if refers else "")
            yield replace(expect(rule.name, column, rule.on_violation), reason=JOIN if refers else KEY)


def looked_up(rules: Sequence[SetRule]) -> Iterator[tuple[str, Read]]:
    """Return the tables that rows are judged by, as static inputs the query takes no frame of."""
    for rule in rules:
        if rule.judges_rows and rule.kind == "references":
            told = Read("static", rule.other, on=rule.columns, unmatched="quarantine", asked_by=rule.name)
            yield rule.name, told
