"""The terms of a measurement, which a verb's options set: inputs, budget, waiting and store."""

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
        machines: Whether sides may run on different machines, because the verb compares machines.
        timed: Whether times are measured. Other verbs neither wait for another ortune nor delay it.
        wait: Whether to wait while another ortune measures.
        wait_quiet_s: Maximum seconds to wait until other programs stop using the CPUs; 0 not to wait.
        budget_s: Maximum seconds of the measurement; None without a limit.
        stored: Whether results are stored.
        folder: Folder of the store; None for the usual folder.
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
        """Limits of a rewrite: the limits of the model's first run if there is a budget, otherwise the usual limits."""
        if self.budget_s is None:
            return USUAL_LIMITS
        return Limits(load_s=max(LEAST_LOAD_S, self.budget_s))
