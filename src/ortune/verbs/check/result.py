"""Result of ``ortune check``: findings and fixes of each model file."""

from __future__ import annotations

import msgspec

from ortune.records import (
    ErrorInfo,
    Finding,
    RewriteSpec,
    Verification,
)
from ortune.records.base import Record


class FixedModel(Record, frozen=True, kw_only=True):
    """A model after its fixes.

    Attributes:
        path: The written file; "" for a dry run.
        rewrites: The applied rewrites, in order.
        what: One sentence for each rewrite that changed something.
        before: Number of nodes by operator, in all graphs.
        after: The same for the fixed model.
        remaining: Findings that are left.
        verification: Comparison of the outputs with the original's; None for a dry run.
    """

    path: str = ""
    rewrites: tuple[RewriteSpec, ...]
    what: tuple[str, ...]
    before: dict[str, int]
    after: dict[str, int]
    remaining: tuple[Finding, ...] = ()
    verification: Verification | None = None


class CheckedModel(Record, frozen=True, kw_only=True):
    """The findings of one file.

    Attributes:
        path: The path as given.
        n_nodes: Number of nodes in all graphs.
        findings: Findings, the most severe first.
        fixed: The fixed model; None if no fix was requested or possible.
        error: Why the file could not be read, or its fixed copy could not be written.
    """

    path: str
    n_nodes: int = 0
    findings: tuple[Finding, ...] = ()
    fixed: FixedModel | None = None
    error: ErrorInfo | None = None


class CheckResult(Record, frozen=True, kw_only=True):
    """Findings in model files, without running them.

    Attributes:
        models: In the order given.
        n_rules: Number of rules applied.
        fail_on: The severity from which findings fail the check; "never" for none.
        failed: Whether such findings are left.
        configuration: The configuration file; "" for none.
        titles: Title of each rule with a finding, by its code.
    """

    models: tuple[CheckedModel, ...]
    n_rules: int
    fail_on: str
    failed: bool
    configuration: str = ""
    titles: dict[str, str] = msgspec.field(default_factory=dict)
