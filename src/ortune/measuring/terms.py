"""The terms of a measurement, from a verb's options: inputs, budget, waiting and store."""

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
    """The measurement options of a verb.

    Attributes:
        feeds: Inputs of the model, and its load.
        common: Plan with the settings of all sides.
        browser: Browser for pages; None for verbs without pages.
        machines: Whether sides may run on different machines, because these are compared.
        timed: Whether times are measured. Other verbs neither wait for another ortune nor delay it.
        wait: Whether to wait for another ortune that measures.
        wait_quiet_s: Maximum seconds to wait for a machine with CPUs that other programs do not use; 0 for none.
        budget_s: Maximum seconds of the measurement; None without a limit.
        stored: Whether results are stored.
        folder: Folder of the store; None for the usual one.
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
        """Limits of a rewrite: those of the model's first run, or the usual ones without a budget."""
        if self.budget_s is None:
            return USUAL_LIMITS
        return Limits(load_s=max(LEAST_LOAD_S, self.budget_s))
