"""Command lines that repeat a document's measurement with the same inputs, load, statistic and runtime.

There is no command if options cannot express all of these, because it would measure something else.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

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
"""Maximum denominator for weights of a mix that are written as whole numbers."""
_OF_TUNE = ("--budget", "--current", "--targets", "--data", "--worth", "--worth-adopting", "--allow")
"""Options of ``tune``, each with a value, that ``compare`` lacks or interprets differently."""


def plan_options(plan: Plan, flag: str) -> list[str]:
    """Return a plan's settings and rewrites as options that begin with ``flag``: "--", "--a-" or "--b-"."""
    words = [word for setting in plan.assignments for word in (f"{flag}set", setting)]
    for spec in plan.rewrites:
        params = ",".join(f"{name}={value}" for name, value in spec.params.items())
        words += [f"{flag}rewrite", f"{spec.name}:{params}" if params else spec.name]
    return words


def objective_options(statistic: str) -> list[str]:
    """Return the ``--objective`` option for a statistic; empty for latency."""
    name = next((name for start, name in _OBJECTIVES.items() if statistic.startswith(start)), "")
    return ["--objective", name] if name else []


def load_options(work: Workload) -> list[str]:
    """Return the options ``--gap``, ``--sessions``, ``--callers`` and ``--seed`` that differ from their defaults."""
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
    """Return the inputs and the load as options; None if options cannot express them."""
    if work is None or any(note.startswith(IN_A_POD) for note in notes):
        return None
    words = _inputs(work)
    return None if words is None else words + load_options(work)


def user_inputs(work: Workload) -> list[str]:
    """Return the user's own inputs as options; empty if there are none."""
    if not work.inputs_path:
        return []
    return ["--inputs", work.inputs_path, *(["--image", work.image] if work.image else [])]


def _inputs(work: Workload) -> list[str] | None:
    """Return the inputs as options; None if options cannot express them."""
    words = user_inputs(work) if work.inputs_path else _shapes(work)
    if words is None:
        return None
    return words + [word for library in work.custom_ops for word in ("--custom-ops", library)]


def _shapes(work: Workload) -> list[str] | None:
    """Return the shapes as options; for a mix, also the sizes of the single dimension in which its cases differ.

    None if options cannot express the shapes.
    """
    if len(work.cases) == 1:
        inputs = work.cases[0].inputs
        if any("(" in choice.dtype for choice in inputs):
            return None  # there is no option for the length of a sequence
        return [word for choice in inputs for word in ("--shape", _shape(choice))]
    # Cases are named by ``--dim``, such as "seq=16"; a single dimension only, since a mix of several is a
    # product.
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
    """Format a mix for ``--dim``: "16,128" if the weights are equal, "16:3,128:1" if they have a whole-number ratio."""
    if len(set(weights)) == 1:
        return ",".join(sizes)
    shares = [Fraction(weight).limit_denominator(_MOST_PARTS) for weight in weights]
    # 0.75 and 0.25 are 3/4 and 1/4: with the common denominator 4, they are the parts 3 and 1.
    parts = [share * math.lcm(*(one.denominator for one in shares)) for share in shares]
    whole = all(math.isclose(part / sum(parts), weight) for part, weight in zip(parts, weights, strict=True))
    texts = map(str, parts) if whole else (f"{weight:.12g}" for weight in weights)
    return ",".join(f"{size}:{text}" for size, text in zip(sizes, texts, strict=True))


def _shape(choice: InputChoice) -> str:
    return f"{choice.name}:{'x'.join(map(str, choice.shape))}"


def tune_line(side: Side, work: Workload | None, statistic: str, notes: Sequence[str] = ()) -> list[str]:
    """Return the command that tunes a side's model with the same workload; empty if options cannot express it."""
    options = workload_options(work, notes)
    if options is None or side.plan.providers:
        return []
    python = ["--runtime", _named(side.runtime)] if _was_named(side.runtime) else []
    return ["ortune", "tune", model_of(side), *options, *objective_options(statistic), *python]


def profile_line(side: Side, work: Workload | None) -> list[str]:
    """Return the command that profiles a side's model with the user's inputs; empty if options cannot express it."""
    options = None if work is None or len(work.cases) > 1 else _inputs(only_given(work))
    if options is None or side.plan.rewrites or side.plan.providers or side.runtime.source is not None:
        return []
    python = ["--runtime", _named(side.runtime)] if _was_named(side.runtime) else []
    return ["ortune", "profile", model_of(side), *plan_options(side.plan, "--"), *options, *python]


def why_line(base: Side, new: Side, work: Workload | None) -> list[str]:
    """Return the command that profiles the new side, with ``--against`` if the two sides have different models."""
    if base.model.sha256 == new.model.sha256 or base.plan.rewrites or new.plan.rewrites:
        return profile_line(new, work)
    profile = profile_line(base, work)
    if not profile or new.plan.providers or new.runtime != base.runtime:
        return profile_line(new, work)
    return [*profile, "--against", model_of(new), *plan_options(new.plan, "--b-")]


def only_given(work: Workload) -> Workload:
    """Return a single-case workload without the inputs that ortune chose, because ortune chooses them again."""
    if len(work.cases) != 1:
        return work
    (case,) = work.cases
    chosen = tuple(choice for choice in case.inputs if choice.origin == "user")
    return msgspec.structs.replace(work, cases=(msgspec.structs.replace(case, inputs=chosen),))


def report_line(session: str, store: str) -> list[str]:
    """Return the command that shows a session with all details; empty if the session was not stored."""
    where = ["--store", store] if store else []
    return ["ortune", "report", session, *where, "-v"] if session else []


def with_budget(command: str, seconds: float) -> list[str]:
    """Return a command line with a different ``--budget``; empty if the command is not an ortune command."""
    words = words_of(command)
    if not words:
        return []
    _drop(words, "--budget")
    return [*words, "--budget", as_option(seconds)]


def change_line(command: str, default: Plan, change: Plan) -> list[str]:
    """Return the command that compares a tuning's default plan with one change; empty if ``command`` is no tuning.

    Args:
        command: The command of the tuning.
        default: The tuning's default plan.
        change: Plan with the changed settings and rewrites.
    """
    words = words_of(command)
    if words[1:2] != ["tune"]:
        return []
    words[1] = "compare"
    for flag in _OF_TUNE:
        _drop(words, flag)
    if default.is_web and "--target" in words[:-1]:  # which may have been all targets in a browser
        words[words.index("--target") + 1] = find(default.provider_names[0]).target
    return [*words, *plan_options(change, "--b-")]


def words_of(command: str) -> list[str]:
    """Return the last command of a document as words; empty if it is not an ortune command.

    A single command spans several lines if a name in it contains line breaks.
    """
    words, rest = list[str](), ""
    for line in command.strip().split("\n")[:_MOST_LINES]:
        rest += line
        try:
            words = shlex.split(rest)
            rest = ""
        except ValueError:  # a quote is still open
            rest += "\n"
    return words if words[:1] == ["ortune"] and not rest else []


def _drop(words: list[str], flag: str) -> None:
    """Remove every occurrence of an option and its value from ``words``."""
    while flag in words[:-1]:
        at = words.index(flag)
        del words[at : at + 2]


def lines(*commands: Sequence[str]) -> list[str]:
    """Return each command as one shell line, without the empty commands."""
    return [shlex.join(words) for words in commands if words]


def compare_line(
    a: Side, b: Side, work: Workload | None, statistic: str, notes: Sequence[str] = (), *, reproduce: str
) -> list[str]:
    """Return the command that compares two sides on a workload; empty if options cannot express it.

    Args:
        a: The base.
        b: The new side.
        work: The workload.
        statistic: The compared statistic.
        notes: Notes of the document.
        reproduce: Command of the document, from which the browser options are copied.
    """
    options, bundle = workload_options(work, notes), _bundle_of(a, b)
    target = [] if bundle else _target_of(a, b, reproduce)
    if options is None or target is None or (not bundle and any(map(_is_rewritten, (a, b)))):
        return []
    if bundle:
        words = ["ortune", "compare", bundle, *plan_options(Plan(settings=b.plan.settings), "--b-")]
    else:
        words = ["ortune", "compare", model_of(a)]
        one_model = (a.model.sha256, model_of(a)) == (b.model.sha256, model_of(b))
        # Equal sides too are named twice: without B, there is nothing to compare.
        if not one_model or (a.plan, a.runtime) == (b.plan, b.runtime):
            words.append(model_of(b))
        words += [*plan_options(a.plan, "--a-"), *plan_options(b.plan, "--b-")]
    if a.runtime.source is not None or b.runtime.source is not None:
        for letter, side in (("a", a), ("b", b)):
            words += [f"--{letter}-runtime", _named(side.runtime)] if _was_named(side.runtime) else []
    elif _named(a.runtime) != _named(b.runtime):
        # For a bundle, A's runtime is found again as before.
        words += ["--a-runtime", _named(a.runtime)] if not bundle or _was_named(a.runtime) else []
        words += ["--b-runtime", _named(b.runtime)]
    elif _was_named(a.runtime):
        words += ["--runtime", _named(a.runtime)]
    return [*words, *target, *options, *objective_options(statistic)]


def _target_of(a: Side, b: Side, reproduce: str) -> list[str] | None:
    """Return the execution provider of both sides as options; None if the sides differ or options cannot express it."""
    if a.plan.providers != b.plan.providers or any(spec.options for spec in a.plan.providers):
        return None
    if not a.plan.providers:
        return []
    target = find(a.plan.providers[0].name).target
    if len(a.plan.providers) > 1 or not target:
        return None
    if not a.plan.is_web:
        return ["--target", target]
    web = _ort_web(a.runtime)
    if not web or web != _ort_web(b.runtime):
        return None
    return ["--target", target, "--ort-web", web, *_browser_options(reproduce)]


def _ort_web(runtime: Runtime) -> str:
    """Return the value of ``--ort-web``: a version that ortune fetched, or the user's folder; "" if unknown."""
    dist = Path(runtime.ort_web_dist)
    fetched = not runtime.ort_web_dist or dist.parent.name == f"onnxruntime-web-{runtime.ort_web}"
    return runtime.ort_web if fetched else runtime.ort_web_dist


def _browser_options(command: str) -> list[str]:
    """Return the options of a command that choose the browser and its window."""
    words = words_of(command)
    program = [words[words.index("--browser") + 1]] if "--browser" in words[:-1] else []
    return [*(["--browser", *program] if program else []), *(["--headful"] if "--headful" in words else [])]


def _bundle_of(a: Side, b: Side) -> str:
    """Return the bundle of B if A is its original model with default settings; "" otherwise."""
    return operand(b.bundle) if b.bundle and a.bundle == b.bundle and a.plan.id == Plan().id else ""


def _is_rewritten(side: Side) -> bool:
    """Return whether a side has rewrites that no option can express: from a bundle, or with a comma in a parameter."""
    texts = [text for spec in side.plan.rewrites for pair in spec.params.items() for text in pair]
    return bool(side.plan.rewrites) and (bool(side.bundle) or any("," in text for text in texts))


def model_of(side: Side) -> str:
    """Return the model as a command-line argument: its path, or its label if it is from a git revision."""
    return operand(side.label if "@" in side.label else side.model.path)


def _was_named(runtime: Runtime) -> bool:
    """Return whether the user named the runtime, so that a command has to repeat it."""
    return runtime.origin == "--runtime"


def _named(runtime: Runtime) -> str:
    return runtime.name or runtime.python
