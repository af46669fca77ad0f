"""The terms of a measurement: what a verb's options say of inputs, budget, waiting and the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ortune.measuring.input_options import InputOptions
from ortune.measuring.sides import USUAL_LIMITS
from ortune.records import Plan
from ortune.search.phases import LEAST_LOAD_S
from ortune.targets.browser.setup import BrowserSetup
from ortune.targets.task import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a verb's options say of how it measures.

    Attributes:
        feeds: What the model is fed, and under what load.
        common: Settings of all sides.
        browser: What pages run in; None for verbs that open none.
        machines: Whether sides may run on different machines, since these are compared.
        timed: Whether times are measured. A verb that reports none neither waits for another ortune nor holds it up.
        wait: For another ortune that measures.
        wait_quiet_s: The longest wait for a machine whose CPUs other programs do not use; 0 is none.
        budget_s: What measuring may take; None if nothing limits it.
        stored: Whether what is measured is kept.
        folder: Of the store, where it is not the usual one.
    """

    feeds: InputOptions = field(default_factory=InputOptions)
    common: Plan = field(default_factory=Plan)
    browser: BrowserSetup | None = None
    machines: bool = False
    timed: bool = True
    wait: bool = True
    wait_quiet_s: float = 0.0
    budget_s: float | None = None
    stored: bool = False
    folder: Path | None = None

    @property
    def rewriting(self) -> Limits:
        """A rewrite may take as long as the first run of the model may; without a budget, as long as usual."""
        if self.budget_s is None:
            return USUAL_LIMITS
        return Limits(load_s=max(LEAST_LOAD_S, self.budget_s))
