"""The table of all budget fractions and limits of all verbs, which the code and the documentation use.

A fraction limits how much of a budget a phase may take, a minimum is granted in any budget, and a factor is a margin on
an expected duration. Numbers that depend on counts, such as how many plans fit in a race, are in ``trial_counts``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One limit on the time of a step, as a row of the table in the documentation.

    Attributes:
        name: Name of the phase.
        verbs: Verbs that have the phase.
        amount: The number.
        unit: Unit of the amount, for readers: "of the time left", "s", "times a trial".
        what: Purpose of the time, or reason for the limit.
    """

    name: str
    verbs: str
    amount: float
    unit: str
    what: str


TABLE: list[Phase] = []
"""All phases, in the order in which a session runs them."""


def _phase(name: str, verbs: str, amount: float, unit: str, what: str) -> float:
    """Add a number to the table and return it."""
    TABLE.append(Phase(name=name, verbs=verbs, amount=amount, unit=unit, what=what))
    return amount


EVERY = "all that run a model"

LEAST_LOAD_S = _phase(
    "loading", EVERY, 60.0, "s", "loading a model, a source or a rewrite may take this long in any budget"
)
LEAST_FIRST_RUN_S = _phase(
    "first run", EVERY, 20.0, "s", "a first run may take this long in any budget; a loop may never end"
)
LEVEL_TIMES = _phase(
    "run without optimisation",
    EVERY,
    1.5,
    "times the first run",
    "the reference that outputs are compared with",
)
EXACT_SHARE = _phase(
    "evaluation in float64",
    "look, bench, tune, compare, history",
    0.1,
    "of the budget",
    "outputs compared with ONNX's reference evaluator, if it is expected to take no more",
)
LOOK_EXACT_S = _phase("evaluation in float64", "look", 1.0, "s", "maximum, after everything that is timed")
LOOK_SHARE = _phase(
    "pilot", EVERY, 0.1, "of the time left", "maximum for one step; trials are shortened for it"
)
LEAST_PAGES = _phase(
    "compiled code of a page",
    "all that run a model in a page",
    4.0,
    "trials left",
    "otherwise the pilot's page does not wait for its browser to store it",
)
LEAST_LOOK_S = _phase(
    "inputs with other values",
    EVERY,
    3.0,
    "s",
    "minimum, or 10 % of the time left if more; one start and a few runs, to see if latency depends on the values",
)
ROUND_RUNS = _phase(
    "peak memory",
    "bench, look, diagnose",
    5.25,
    "times a run",
    "a round runs half, full and double each guessed dimension; two to five rounds per process, or one size if two do "
    "not fit",
)
WITHIN_MEMORY_SHARE = _phase(
    "configurations within --max-memory",
    "tune",
    0.5,
    "of the time left",
    "each in one process, if the default needs more memory",
)
PROFILE_BEFORE_RACE_SHARE = _phase(
    "profile",
    "tune",
    0.2,
    "of the time left",
    "of the default, before the search: findings and headroom come from it",
)
PROFILE_BEFORE_FIXES_SHARE = _phase(
    "profile", "diagnose", 0.3, "of the time left", "more if no fix can be measured"
)
PROFILE_ALONE_SHARE = _phase(
    "profile without fixes", "diagnose", 0.6, "of the time left", "the rest is for rules"
)
IN_BROWSERS_SHARE = _phase(
    "other targets in a browser",
    "tune",
    0.3,
    "of the time left",
    "a software GPU may need minutes per run",
)
ROW_SHARE = _phase(
    "rewrites that change nothing",
    "tune",
    0.1,
    "of the time left",
    "found by comparing optimised graphs",
)
CHECKS_SHARE = _phase(
    "rules and rewrites",
    "tune",
    0.15,
    "of the time left",
    "those that fit the model; skipped ones are named",
)
LEAST_CHECKS_S = _phase(
    "rules and rewrites", "all that check rules", 1.5, "s", "enough on a quiet machine for a typical model"
)
QUANTIZE_SHARE = _phase(
    "quantized models",
    "tune",
    0.35,
    "of the time left",
    "creating them and comparing outputs; the rest is for the comparison",
)
WHOLE_MODELS_SHARE = _phase(
    "whole models at lower precision",
    "quantize",
    0.3,
    "of the time after the pilot",
    "each method once; the first in any case, further ones until one runs",
)
MAKING_SHARE = _phase(
    "one model at lower precision",
    "quantize",
    0.4,
    "of the time left",
    "calibration runs the float model on every input",
)
SENSITIVITY_SHARE = _phase(
    "sensitivity",
    "quantize",
    0.45,
    "of the time after the pilot",
    "as many per-layer measurements as fit until then",
)
STEPS_SHARE = _phase(
    "steps towards float", "quantize", 0.6, "of the time after the pilot", "the rest is for the comparison"
)
SATURATION_SHARE = _phase(
    "saturation", "quantize", 0.05, "of the budget", "reserved to emulate a processor without VNNI"
)
HELD_OUT_SHARE = _phase(
    "held-out inputs",
    "quantize",
    0.2,
    "of the budget",
    "reserved to compare the winner on 59 held-out inputs if runs are slow",
)
LEAST_SEARCH_SHARE = _phase(
    "calibration, first blocks and confirmation", "tune", 0.55, "of the time left",
    "the rest is for what the first blocks suggest",
)  # fmt: skip
TRY_SHARE = _phase(
    "first blocks",
    "tune",
    0.75,
    "of the search",
    "of each configuration; the leader then needs time for refinement",
)
CONFIRM_SHARE = _phase(
    "confirmation", "tune", 0.3, "of the search and confirmation", "fresh blocks of the winner"
)
LEAST_LEFT_SHARE = _phase(
    "shortest confirmation",
    "quantize",
    0.85,
    "of the time that it needs",
    "if no more is left, one model is confirmed in the fewest blocks, which may exceed the budget",
)
ALONE_SHARE = _phase(
    "last check", "tune", 0.3, "of the confirmation", "winner and what it replaces, one process at a time"
)
WHY_SHARE = _phase("explanation", "tune", 0.1, "of the time left", "profiles of winner and default")
AFTER_SHARE = _phase(
    "load times and explanation",
    "compare",
    0.2,
    "of the budget",
    "maximum reserved for what follows the last block, except the answer",
)
DELIVERY_SHARE = _phase(
    "answer",
    "compare, tune",
    0.5,
    "of the time until the first process starts",
    "to write, plot and store the result",
)
SOAK_SHARE = _phase(
    "memory over time",
    "soak",
    0.45,
    "of the budget",
    "processes of the unchanged model, if memory rises; the rest is for causes",
)
HANG_SHARE = _phase("hang", EVERY, 0.25, "of the time left", "maximum for one hang or one slow rewrite")
LEAST_PATIENCE_S = _phase(
    "hang",
    EVERY,
    2.0,
    "s",
    "minimum for this limit: a working configuration may need it on a busy machine",
)
PROFILED_TRIALS = _phase(
    "profile of two configurations",
    "compare, quantize, tune",
    4.6,
    "times a trial",
    "each with and without the profiler",
)
NEXT_TIMES = _phase(
    "next block",
    "compare, tune",
    1.2,
    "times the recent ones",
    "a block that would end too late is not started",
)
RACE_TIMES = _phase(
    "trials of a search",
    "tune",
    1.06,
    "times the pilot's",
    "new configurations load more slowly, and disks are busy",
)
FIXED_TIMES = _phase(
    "fixed number of blocks",
    "diagnose, history",
    1.3,
    "times the pilot's",
    "so the announced blocks fit",
)
BEYOND_TIMES = _phase("confirmation", "tune", 1.1, "times the budget", "maximum for a block that has started")
OVERRUN_SHARE = _phase(
    "first result",
    "compare, look",
    1 / 3,
    "of the budget",
    "maximum by which the one block or the table of operators without which there is no answer may end late",
)
LEAST_OVERRUN_S = _phase("first result", "compare", 10.0, "s", "minimum for this limit")
