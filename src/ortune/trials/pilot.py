"""Before anything is compared: can the model be fed, what does a run cost, does latency depend on the values?"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import onnx_ir

from ortune.errors import InputError, MeasurementError, ModelError, RuntimeNotFound
from ortune.inputs import feed_files, workload
from ortune.inputs.feeds import Kind
from ortune.inputs.trial_fixes import alternatives, cannot_feed
from ortune.records import CaseTimes, Failed, FeedRef, Measured, Plan, Workload
from ortune.stats.warmup import runs_per_trial
from ortune.targets.turns import Turns
from ortune.trials.executor import Arm, Executor, Timing

KINDS: tuple[Kind, ...] = ("usual", "zeros", "extreme")
FEED_TRIES = 12
LEAST_OF_KIND = 12  # runs of each kind of feed
MOST_RUNS = 20_000
TURN_NS = (
    20_000_000  # of a turn of a fast model: much shorter than a neighbour's phases, much longer than a switch
)
AWAKE_NS = 1_000_000  # after which a fast model runs as if it had not slept
# A browser has more to do when it wakes: the runs of a model of 0.75 ms took 2.2, 1.4, 1.2, 1.2 and four times 1.05
# times as long as the later ones, in twelve pages of twelve turns.
PAGE_AWAKE_NS = 8_000_000
LEAST_ROUNDS, MOST_ROUNDS = 5, 16
NEXT_TO_NOTHING = 0.1  # of a trial's start: what may be saved by cutting its runs
LEAST_SHORT = 3  # rounds of a trial that a budget cuts short, before its turns are cut too
BETWEEN_FLOOR = 0.01  # processes differ by about 1 % on a quiet machine; two pilots cannot tell less


def write_case_feeds(
    model: onnx_ir.Model, work: Workload, folder: Path, kind: Kind = "usual"
) -> tuple[FeedRef, ...]:
    """Makes every case's feeds and writes them. The same workload gives the same bytes."""
    refs = []
    for i, (case, values) in enumerate(workload.feeds(model, work, kind)):
        place = folder / f"{kind}-{i}"
        feed_files.write_feeds(place, values)
        refs.append(FeedRef(name=case.name, path=str(place), weight=case.weight))
    return tuple(refs)


def settle_workload(
    executor: Executor,
    arm: Callable[[tuple[FeedRef, ...]], Arm],
    model: onnx_ir.Model,
    proposal: Workload,
    folder: Path,
    say: Callable[[str], None],
    *,
    keep_outputs: bool = False,
) -> Workload:
    """Tries the proposed inputs for real and corrects them from what ONNX Runtime says.

    With ``keep_outputs`` the executor's last outcome says where they lie.

    Raises:
        InputError: No inputs were found that run; names the input and the flag.
        ModelError: The model does not load, whatever it is fed.
    """
    work, last = proposal, ""
    for attempt in range(FEED_TRIES):
        refs = write_case_feeds(model, work, folder / f"try-{attempt}")
        outcome = executor.trial(arm(refs), runs=0, keep_outputs=keep_outputs)
        if isinstance(outcome, Measured):
            return work
        raise_if_unrunnable(outcome, arm(refs))
        last = outcome.what
        better = alternatives(model, work, last)
        if better is None:
            break
        say(f"those inputs do not run ({last.splitlines()[0][:100]}); trying others")
        work = better
    raise cannot_feed(model, work, last)


def raise_if_unrunnable(outcome: Failed, arm: Arm) -> None:
    """Raises for failures that no other input can mend.

    Raises:
        RuntimeNotFound: The interpreter does not start or has no onnxruntime.
        ModelError: ONNX Runtime does not load the model.
        MeasurementError: The plan cannot be applied, or the process came to a bad end.
    """
    where = place(arm)
    if outcome.reason == "no-runtime":
        # A browser, or onnxruntime-web, is not there by --runtime, and says itself what helps.
        what, _, do = outcome.what.partition(" -> ")
        where = "" if do else arm.runtime.python
        raise RuntimeNotFound(what, where=where, do=do or "pip install onnxruntime, or --runtime PATH")
    loading = outcome.phase in ("starting", "importing", "preparing", "loading")
    if outcome.phase != "preparing" and loading and outcome.reason in ("load-error", "unsupported"):
        newer = _too_new(outcome.what, arm.runtime.build)
        if newer:
            web = bool(arm.runtime.ort_web_dist)
            other = "onnxruntime-web (--ort-web VERSION)" if web else "onnxruntime (--runtime PATH)"
            do = f"use a newer {other}, or export the model for this one"
            raise ModelError(newer, where=where, do=do)
        raise ModelError(outcome.what, where=where, do=remedy(outcome, in_page=arm.plan.is_web))
    if loading or outcome.reason in (
        "crash", "timeout", "out-of-memory", "disk-full", "hidden", "protocol", "not-applied"
    ):  # fmt: skip
        do = remedy(outcome, in_page=arm.plan.is_web)
        raise MeasurementError(describe(outcome), where=where, code=outcome.reason, do=do)


def _too_new(what: str, build: str) -> str:
    """What of a model is newer than the runtime, as that says itself; "" where nothing is."""
    ir = re.search(r"Unsupported model IR version: (\d+), max supported IR version: (\d+)", what)
    if ir:
        return f"IR version {ir[1]} is newer than {build}, which reads up to {ir[2]}"
    opset = re.search(r"Opset (\d+) is under development.*support for domain (\S+) is till opset (\d+)", what)
    if opset:
        return f"opset {opset[1]} of {opset[2]} is newer than {build}, which has up to {opset[3]}"
    return ""


def place(arm: Arm) -> str:
    """Where a trial failed: the model, and the plan when it is not the default."""
    return f"{arm.model} with {arm.plan.describe()}" if arm.plan.id != Plan().id else str(arm.model)


def describe(outcome: Failed) -> str:
    """The failure and, for a bad end, the last lines that the process printed."""
    silent = outcome.reason in ("crash", "protocol")
    return "\n".join([f"{outcome.reason}: {outcome.what}", *(outcome.log[-5:] if silent else ())])


def remedy(outcome: Failed, *, in_page: bool = False) -> str:
    """What the user can do about a failure, of a process or of a page."""
    if outcome.phase == "preparing":
        return "leave that setting out, or give it what it needs"
    if in_page and outcome.reason in _IN_PAGE:
        return _IN_PAGE[outcome.reason]
    load = next(
        (do for words, do in _NOT_LOADED if re.search(words, outcome.what, re.IGNORECASE)), _NOT_LOADED_ELSE
    )
    refused = next((do for words, do in _NOT_APPLIED if words in outcome.what), _LACKS_IT)
    return {
        "load-error": load,
        "unsupported": load,
        "run-error": "give it other inputs (--inputs, --shape, --dim)",
        "input-error": "give it other inputs (--inputs, --shape, --dim)",
        "timeout": "give smaller inputs (--shape, --dim) or a larger --budget",
        "out-of-memory": "give smaller inputs (--shape, --dim) or run where there is more memory",
        "disk-full": "free space in the temporary folder, or set TMPDIR",
        "hidden": "leave the page in front and the screen awake, and measure again",
        "not-applied": refused,
        "unknown-key": "leave it out, or use an onnxruntime that knows it (--runtime)",
        "protocol": "see what that interpreter prints by itself; the worker's stdout is ortune's alone",
    }.get(outcome.reason, "run it alone with the same onnxruntime to see whether the crash is its own")


_NOT_LOADED = (
    # A file that was there when the model was opened.
    (
        r"no.?such.?file|file doesn't exist|does not exist|cannot get file size",
        "put the file back, and run it again",
    ),
    (
        r"not a registered function|no op registered|no schema registered|unregistered|not registered",
        "name the operator's library with --custom-ops LIB, or use a newer onnxruntime (--runtime)",
    ),
    (
        r"could not find an implementation|not.?implemented",
        "use an onnxruntime that computes this operator for these types (--runtime), or export the model with others",
    ),
    # ONNX Runtime knows the operator, and refuses what it is given: other dimensions decide that, as in the branch of
    # an If that is made for another rank.
    (
        r"InferenceError",
        "export the model for these shapes, or leave its dimensions free (no --dim, --shape)",
    ),
    (
        r"custom.?op|dlopen|shared object|LoadLibrary",
        "name a library that this onnxruntime loads with --custom-ops LIB",
    ),
    (r"permission denied", "make the file readable, and run it again"),
    (
        r"invalid model|invalid.?graph|invalid.?protobuf|protobuf parsing|type error",
        "export the model again; onnx.checker.check_model shows what is wrong with it",
    ),
    (
        r"cannot be fed|cannot feed",
        "use an onnxruntime that feeds this type (--runtime), or export the model with another",
    ),
)
"""What helps where ONNX Runtime does not load a model, by what it says."""
_NOT_LOADED_ELSE = "load it alone with the same onnxruntime to see whether the fault is the model's"
_LACKS_IT = "leave it out, or use an onnxruntime that has it (--runtime); ortune doctor lists them"
_NOT_APPLIED = (
    ("has no attribute", _LACKS_IT),
    (
        "this build has it",
        "leave its options out or give them other values; its libraries or devices may be missing too",
    ),
    ("took none of the nodes", "leave it out: it takes no node of this model"),
    ("was refused", "leave it out, or give it another value"),
    ("did not arrive", "leave it out, or give it another value"),
)
"""What helps where a setting or a provider was not applied, by what was said of it."""
_LACKING = "name a browser or an onnxruntime-web that has what is missing: --browser PATH, --headful, --ort-web VERSION"
_IN_PAGE = {
    "load-error": _LACKING,
    "unsupported": _LACKING,
    "not-applied": f"leave it out, or {_LACKING}",
    "crash": "start the browser by hand to see whether the crash is its own, or name another: --browser PATH",
}
"""What helps a page, where that is something else than for a process."""


def timing_for(trial: Measured, *, at_least_runs: int = 0) -> Timing:
    """How many runs a process should time, from what a process and a run cost (Kalibera and Jones 2013)."""
    cases = trial.done.cases
    run_ns = sum(float(np.median(c.latency_ns)) for c in cases)
    # What a run of every case costs: its latency and the gap after it.
    cost_ns = trial.done.wall_ns * len(cases) / trial.done.n_runs
    process_ns = max(float(trial.elapsed_ns - trial.done.wall_ns), 1e6)
    within = sum(_robust_variance(c) for c in cases)
    slow = run_ns > 200e6
    low = 3 if slow else 10
    runs = runs_per_trial(
        cost_process_ns=process_ns,
        cost_run_ns=cost_ns,
        var_within=within,
        var_between=(BETWEEN_FLOOR * run_ns) ** 2,
        low=low,
        # On a noisy machine processes differ by more than the floor: timing longer than starting buys nothing.
        high=max(low, min(MOST_RUNS, int(process_ns / cost_ns))),
    )
    # Never less than a tenth of a second of a fast model: a neighbour's burst must not cover the whole of a trial.
    # (With 24 ms of a 6 us model one comparison in thirteen scattered by 20 %.)
    runs = max(runs, int(100e6 / cost_ns), at_least_runs)
    # Callers make their runs side by side, each as many.
    each_ns = cost_ns * trial.done.n_callers
    # In a page the wall holds as much again beside the runs, which is no part of what they need to be awake.
    awake = PAGE_AWAKE_NS / run_ns if trial.done.page is not None and run_ns else AWAKE_NS / each_ns
    turns = turns_for(process_ns, each_ns, awake)
    least = -(-at_least_runs // turns.runs)
    return Timing(
        runs=min(runs, max(MOST_RUNS, at_least_runs)),
        turns=replace(turns, rounds=max(turns.rounds, least)),
        warmup_runs=1 if slow else 3,
        warmup_ns=30_000_000,
        warmup_cap_ns=int(min(5e9, max(0.4e9, 12 * cost_ns))),
    )


def turns_for(process_ns: float, cost_ns: float, awake_runs: float) -> Turns:
    """How a group shares the time, before its noise is known.

    Args:
        process_ns: What a trial costs before its first timed run.
        cost_ns: What a run of every case costs, by every caller, its gap included.
        awake_runs: After so many it runs as if it had not rested.
    """
    low = 8 if cost_ns < 20e6 else 3 if cost_ns < 100e6 else 1
    runs = min(MOST_RUNS, max(low, round(TURN_NS / cost_ns)))
    # After a rest caches are cold; of a slow model one run would cost more than that, and is its own warm-up.
    unmeasured = 0 if cost_ns >= 100e6 else max(2, round(awake_runs))
    most = MOST_ROUNDS if cost_ns < 20e6 else MOST_ROUNDS // 2
    rounds = round(process_ns / ((runs + unmeasured) * cost_ns))
    return Turns(runs=runs, unmeasured=unmeasured, rounds=min(most, max(LEAST_ROUNDS, rounds)))


def turns_ns(turns: Turns, run_ns: float) -> float:
    """What the turns of one trial take."""
    return turns.rounds * (turns.runs + turns.unmeasured) * run_ns


def shortened(turns: Turns, start_ns: float, run_ns: float, most_ns: float, least_runs: int = 0) -> Turns:
    """The turns made to fit: fewer rounds first, then fewer runs, then two rounds; not below that.

    Runs stay where all turns are short beside the start: without them a trial would hardly be shorter, and a model of a
    quarter of a millisecond took a whole one in a page, run once after each rest.

    Args:
        turns: As they would be without a limit.
        start_ns: What a trial takes before its first turn.
        run_ns: A run of every case.
        most_ns: What a trial may take.
        least_runs: Of a trial, where a tail needs them: then rounds alone are cut.
    """
    least = max(LEAST_SHORT, -(-least_runs // turns.runs))
    for rounds, runs in ((least, turns.runs), (LEAST_SHORT, 2), (2, 2), (2, 1)):
        fits = start_ns + turns_ns(turns, run_ns) <= most_ns
        kept = least_runs > 0 or turns_ns(turns, run_ns) <= NEXT_TO_NOTHING * start_ns
        if fits or (kept and runs < turns.runs):
            break
        per_round = (turns.runs + turns.unmeasured) * run_ns
        fit = max(rounds, int((most_ns - start_ns) / per_round))
        if runs < turns.runs:
            turns = replace(turns, runs=runs, unmeasured=min(turns.unmeasured, 1))
        turns = replace(turns, rounds=min(turns.rounds, fit))
    return turns


def _robust_variance(case: CaseTimes) -> float:
    values = np.asarray(case.latency_ns, dtype=float)
    mad = float(np.median(np.abs(values - np.median(values))))
    return (1.4826 * mad) ** 2


def pooled(first: Sequence[CaseTimes], second: Sequence[CaseTimes]) -> tuple[CaseTimes, ...]:
    """The cases that two trials have in common, with the runs of both."""
    again = {case.case: case for case in second}
    return tuple(
        msgspec.structs.replace(case, latency_ns=case.latency_ns + again[case.case].latency_ns)
        for case in first
        if case.case in again
    )


def kinds_runs(runs: int) -> int:
    """Runs of each kind of feed, where a trial has so many."""
    return max(LEAST_OF_KIND, runs // 4)


def kinds_ns(runs: int, start_ns: float, run_ns: float) -> float:
    """What trying the kinds of feed takes: ``run_ns`` is a run of every case."""
    return start_ns + len(KINDS) * (1 + kinds_runs(runs)) * run_ns


def kinds_of_feed(
    executor: Executor,
    base: Arm,
    model: onnx_ir.Model,
    work: Workload,
    folder: Path,
    *,
    again: bool = False,
) -> tuple[CaseTimes, ...]:
    """The first case's times under each kind of feed that the model takes, in one process; () when it takes none.

    Feeds that the user gave are real and are not questioned. An extreme feed may be one that the model refuses, so
    fewer kinds are tried when all together fail. ``again`` is the second look, in the other order.
    """
    if work.inputs_path:
        return ()
    first = Workload(cases=work.cases[:1], seed=work.seed, custom_ops=work.custom_ops)
    refs = {}
    for kind in KINDS:
        try:
            ref = write_case_feeds(model, first, folder / "kinds", kind)[0]
        except InputError:
            continue
        refs[kind] = FeedRef(name=kind, path=ref.path)
    for kinds in (KINDS, KINDS[:2], (KINDS[0], KINDS[2])):
        chosen = tuple(refs[kind] for kind in kinds if kind in refs)
        feeds, name = (chosen[::-1], "kinds-again") if again else (chosen, "kinds")
        arm = Arm(name=name, plan=base.plan, model=base.model, runtime=base.runtime, feeds=feeds)
        outcome = executor.trial(arm, runs=kinds_runs(executor.timing.runs))
        if isinstance(outcome, Measured):
            return outcome.done.cases
    return ()
