"""Command lines that measure again what a document measured, with its inputs, load, figure and runtime.

A line is written only where it says all of that; a comparison of something else would settle nothing.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from fractions import Fraction

import msgspec

from ortune.catalogue.providers import find
from ortune.durations import as_option
from ortune.printable import operand
from ortune.records import IN_A_POD, InputChoice, Plan, Runtime, Side, Workload

_OBJECTIVES = {
    "CPU time": "cpu",
    "peak memory": "memory",
    "idle memory": "memory:idle",
    "memory after release": "memory:released",
    "cold start": "cold-start",
    "time to first result": "first-result",
    "main thread blocked": "main-thread",
    "event-loop delay": "event-loop",
    "p95": "p95",
    "throughput": "throughput",
}
_MOST_LINES = 1000
_MOST_PARTS = 1000
"""Weights of a mix are written as whole numbers up to so many parts of the whole."""
_OF_TUNE = ("--budget", "--current", "--targets", "--data", "--worth", "--worth-adopting", "--allow")
"""Options of a tuning that are none of a comparison, or another one's; each has a value."""


def plan_options(plan: Plan, flag: str) -> list[str]:
    """Return the settings and rewrites as options that begin so ("--", "--b-")."""
    words = [word for setting in plan.assignments for word in (f"{flag}set", setting)]
    for spec in plan.rewrites:
        params = ",".join(f"{name}={value}" for name, value in spec.params.items())
        words += [f"{flag}rewrite", f"{spec.name}:{params}" if params else spec.name]
    return words


def objective_options(statistic: str) -> list[str]:
    """``--objective`` for a figure that is no latency."""
    name = next((name for start, name in _OBJECTIVES.items() if statistic.startswith(start)), "")
    return ["--objective", name] if name else []


def load_options(work: Workload) -> list[str]:
    """Gap, sessions, callers and seed, where they are not the usual ones."""
    usual = Workload(cases=())
    words = ["--gap", f"{work.gap_ns / 1e6:.12g}ms"] if work.gap_ns else []
    for option, value, default in (
        ("--sessions", work.sessions, usual.sessions),
        ("--callers", work.callers, usual.callers),
        ("--seed", work.seed, usual.seed),
    ):
        words += [option, str(value)] if value != default else []
    return words


def workload_options(work: Workload | None, notes: Sequence[str] = ()) -> list[str] | None:
    """Return the inputs and the load as options; None where they cannot be written."""
    if work is None or any(note.startswith(IN_A_POD) for note in notes):
        return None
    words = _inputs(work)
    return None if words is None else words + load_options(work)


def user_inputs(work: Workload) -> list[str]:
    """Return the user's own inputs as options; [] where there are none."""
    if not work.inputs_path:
        return []
    return ["--inputs", work.inputs_path, *(["--image", work.image] if work.image else [])]


def _inputs(work: Workload) -> list[str] | None:
    """Return what the model is fed; None where it cannot be written."""
    words = user_inputs(work) if work.inputs_path else _shapes(work)
    if words is None:
        return None
    return words + [word for library in work.custom_ops for word in ("--custom-ops", library)]


def _shapes(work: Workload) -> list[str] | None:
    """Return every tensor's shape, or the sizes of the one dimension in which the cases of a mix differ."""
    if len(work.cases) == 1:
        inputs = work.cases[0].inputs
        if any("(" in choice.dtype for choice in inputs):
            return None  # the length of a sequence has no option
        return [word for choice in inputs for word in ("--shape", _shape(choice))]
    # Named by ``--dim``, as in "seq=16"; one dimension alone, since a mix of several is their product.
    named = [case.name.rpartition("=") for case in work.cases]
    if len({name for name, _, _ in named}) != 1 or any("," in name or not name for name, _, _ in named):
        return None
    sizes = _mix([size for _, _, size in named], [case.weight for case in work.cases])
    words = ["--dim", f"{named[0][0]}={sizes}"]
    for same in zip(*(case.inputs for case in work.cases), strict=True):
        if "(" in same[0].dtype:
            return None
        if len({choice.shape for choice in same}) == 1:
            words += ["--shape", _shape(same[0])]
    return words


def _mix(sizes: Sequence[str], weights: Sequence[float]) -> str:
    """As ``--dim`` takes it: "16,128" where weights are equal, "16:3,128:1" where they are whole parts."""
    if len(set(weights)) == 1:
        return ",".join(sizes)
    shares = [Fraction(weight).limit_denominator(_MOST_PARTS) for weight in weights]
    # 0.75 and 0.25 are 3/4 and 1/4: of their common denominator, 4, they are the parts 3 and 1.
    parts = [share * math.lcm(*(one.denominator for one in shares)) for share in shares]
    whole = all(math.isclose(part / sum(parts), weight) for part, weight in zip(parts, weights, strict=True))
    texts = map(str, parts) if whole else (f"{weight:.12g}" for weight in weights)
    return ",".join(f"{size}:{text}" for size, text in zip(sizes, texts, strict=True))


def _shape(choice: InputChoice) -> str:
    return f"{choice.name}:{'x'.join(map(str, choice.shape))}"


def tune_line(side: Side, work: Workload | None, statistic: str, notes: Sequence[str] = ()) -> list[str]:
    """Return the tuning of a side's model under the same workload; [] where it cannot be written."""
    options = workload_options(work, notes)
    if options is None or side.plan.providers:
        return []
    python = ["--runtime", _named(side.runtime)] if _was_named(side.runtime) else []
    return ["ortune", "tune", model_of(side), *options, *objective_options(statistic), *python]


def profile_line(side: Side, work: Workload | None) -> list[str]:
    """Return the profile of a side's model, fed as the user said; [] where it cannot be written."""
    options = None if work is None or len(work.cases) > 1 else _inputs(as_said(work))
    if options is None or side.plan.rewrites or side.plan.providers or side.runtime.source is not None:
        return []
    python = ["--runtime", _named(side.runtime)] if _was_named(side.runtime) else []
    return ["ortune", "profile", model_of(side), *plan_options(side.plan, "--"), *options, *python]


def why_line(base: Side, new: Side, work: Workload | None) -> list[str]:
    """Return where the time goes; against the base where that is another model, whose inputs are known then."""
    if base.model.sha256 == new.model.sha256 or base.plan.rewrites or new.plan.rewrites:
        return profile_line(new, work)
    profile = profile_line(base, work)
    if not profile or new.plan.providers or new.runtime != base.runtime:
        return profile_line(new, work)
    return [*profile, "--against", model_of(new), *plan_options(new.plan, "--b-")]


def as_said(work: Workload) -> Workload:
    """Return a workload of one shape without the inputs that ortune chose: it chooses them again."""
    if len(work.cases) != 1:
        return work
    (case,) = work.cases
    chosen = tuple(choice for choice in case.inputs if choice.origin == "user")
    return msgspec.structs.replace(work, cases=(msgspec.structs.replace(case, inputs=chosen),))


def told_line(session: str, store: str) -> list[str]:
    """Return the session told again with all that supports it; [] where it was not kept."""
    where = ["--store", store] if store else []
    return ["ortune", "report", session, *where, "-v"] if session else []


def with_budget(command: str, seconds: float) -> list[str]:
    """Return a command line with another budget; [] for what is none."""
    words = words_of(command)
    if not words:
        return []
    _drop(words, "--budget")
    return [*words, "--budget", as_option(seconds)]


def change_line(command: str, default: Plan, change: Plan) -> list[str]:
    """Return one change alone against the default of a tuning, asked as that was; [] where its command is none.

    Args:
        command: Of the tuning.
        default: What it held all against.
        change: What is changed.
    """
    words = words_of(command)
    if words[1:2] != ["tune"]:
        return []
    words[1] = "compare"
    for flag in _OF_TUNE:
        _drop(words, flag)
    if default.is_web and "--target" in words[:-1]:  # which may have been all that a browser offers
        words[words.index("--target") + 1] = find(default.provider_names[0]).target
    return [*words, *plan_options(change, "--b-")]


def words_of(command: str) -> list[str]:
    """Return the last of a document's commands; [] where it is none of ours: an older one may hold anything.

    A command has several lines where a name in it has line ends.
    """
    words, rest = list[str](), ""
    for line in command.strip().split("\n")[:_MOST_LINES]:
        rest += line
        try:
            words = shlex.split(rest)
            rest = ""
        except ValueError:  # a quote that is still open
            rest += "\n"
    return words if words[:1] == ["ortune"] and not rest else []


def _drop(words: list[str], flag: str) -> None:
    """Take an option out, with its value, as often as it is there."""
    while flag in words[:-1]:
        at = words.index(flag)
        del words[at : at + 2]


def lines(*commands: Sequence[str]) -> list[str]:
    """Return the commands that can be written, as they are pasted."""
    return [shlex.join(words) for words in commands if words]


def compare_line(
    a: Side, b: Side, work: Workload | None, statistic: str, notes: Sequence[str] = ()
) -> list[str]:
    """Return the comparison of two sides under a workload; [] where it cannot be written."""
    options, bundle = workload_options(work, notes), _bundle_of(a, b)
    if options is None or (not bundle and any(s.plan.providers or _is_rewritten(s) for s in (a, b))):
        return []
    if bundle:
        words = ["ortune", "compare", bundle, *plan_options(Plan(settings=b.plan.settings), "--b-")]
    else:
        words = ["ortune", "compare", model_of(a)]
        if b.model.sha256 != a.model.sha256:
            words.append(model_of(b))
        words += [*plan_options(a.plan, "--a-"), *plan_options(b.plan, "--b-")]
    if a.runtime.source is not None or b.runtime.source is not None:
        for letter, side in (("a", a), ("b", b)):
            words += [f"--{letter}-runtime", _named(side.runtime)] if _was_named(side.runtime) else []
    elif a.runtime.python != b.runtime.python:
        # Of a bundle, A's runtime is found again, as it was before.
        words += ["--a-runtime", _named(a.runtime)] if not bundle or _was_named(a.runtime) else []
        words += ["--b-runtime", _named(b.runtime)]
    elif _was_named(a.runtime):
        words += ["--runtime", _named(a.runtime)]
    return [*words, *options, *objective_options(statistic)]


def _bundle_of(a: Side, b: Side) -> str:
    """Return the bundle that is compared with its own plain model at its default; "" where the sides are others."""
    return operand(b.bundle) if b.bundle and a.bundle == b.bundle and a.plan.id == Plan().id else ""


def _is_rewritten(side: Side) -> bool:
    """Return whether a plan has rewrites that no option says: those in a bundle's file, or a comma in one."""
    texts = [text for spec in side.plan.rewrites for pair in spec.params.items() for text in pair]
    return bool(side.plan.rewrites) and (bool(side.bundle) or any("," in text for text in texts))


def model_of(side: Side) -> str:
    """Return the model as the command line takes it; one of a git revision lay in a folder that is gone."""
    return operand(side.label if "@" in side.label else side.model.path)


def _was_named(runtime: Runtime) -> bool:
    """Return whether the user named the runtime; one that was found is found again."""
    return runtime.origin == "--runtime"


def _named(runtime: Runtime) -> str:
    return runtime.name or runtime.python
