"""The document of a check."""

from __future__ import annotations

import msgspec

from ortune.records.base import Record
from ortune.records.envelope import ErrorInfo
from ortune.records.finding import Finding
from ortune.records.plan import RewriteSpec
from ortune.records.verification import Verification


class FixedModel(Record, frozen=True, kw_only=True):
    """A model after its fixes.

    Attributes:
        path: Where it was written; "" where it was only looked at.
        rewrites: What was applied, in order.
        what: One sentence for each that changed something.
        before: How often each operator occurred, in all graphs.
        after: The same of the fixed model.
        remaining: What rules still find in it.
        verification: Whether it was run beside the model; None where it was only looked at.
    """

    path: str = ""
    rewrites: tuple[RewriteSpec, ...]
    what: tuple[str, ...]
    before: dict[str, int]
    after: dict[str, int]
    remaining: tuple[Finding, ...] = ()
    verification: Verification | None = None


class CheckedModel(Record, frozen=True, kw_only=True):
    """One file.

    Attributes:
        path: As it was given.
        n_nodes: In all its graphs.
        findings: What is broken first.
        fixed: None where no fix was asked for, or none is there.
        error: Why it could not be read, or its fixed copy not be written.
    """

    path: str
    n_nodes: int = 0
    findings: tuple[Finding, ...] = ()
    fixed: FixedModel | None = None
    error: ErrorInfo | None = None


class CheckResult(Record, frozen=True, kw_only=True):
    """What rules find in files, without running them.

    Attributes:
        models: In the order given.
        n_rules: How many were asked.
        fail_on: The severity from which on findings fail the check; "never" for none.
        failed: Whether any of them is left.
        configuration: The file that options were read from, "" for none.
        titles: What each rule that found something says of itself, by its code.
    """

    models: tuple[CheckedModel, ...]
    n_rules: int
    fail_on: str
    failed: bool
    configuration: str = ""
    titles: dict[str, str] = msgspec.field(default_factory=dict)
