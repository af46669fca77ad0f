"""Sentences for the messages of the core, used in progress, notes and answers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from ortune.durations import as_option, in_words
from ortune.printable import amount
from ortune.records import IN_A_POD, NotEvaluated, messages
from ortune.records.messages import Message, RemarkCode
from ortune.show import finding_words
from ortune.show.exact_words import EVALUATOR
from ortune.show.numbers import waiting

_REMARKS: dict[RemarkCode, str] = {
    "comparing-levels": "comparing outputs with and without graph optimisation",
    "comparing-outputs": "comparing the outputs",
    "comparing-values": "comparing the values",
    "comparing-with-float64": f"comparing outputs with {EVALUATOR}",
    "fastest-so-far": "fastest so far, not confirmed:",
    "load-unknown": "--wait-quiet has no effect: this system does not report how much CPU time other programs use",
    "not-profiled": "not profiled: no time left in the budget",
    "one-at-a-time": "two processes do not fit in memory, so trials run one at a time",
    "one-size": "the model runs only at this size, so memory is measured at one size",
    "optimising-levels": "optimising the model at each level",
    "repeating-alone": "repeating with one process at a time",
    "rows-not-tested": "not tested whether the rows of a batch depend on each other: no time left in the budget",
    "values-not-tested": "not tested whether latency depends on input values: no time left in the budget",
}

_NOT_EVALUATED: dict[NotEvaluated, str] = {
    "operators": "it does not know all operators of this model",
    "misread": "it computes a MaxPool, Resize or LpNormalization of this model differently from ONNX's definition",
    "random": "the model draws random numbers",
    "format": "the model is in ORT format",
    "work-unknown": "the work of this model is unknown or too large",
    "failed": "it cannot evaluate this model",
    "empty": "they have no elements",
    "unsure": "its float32 and float64 results differ",
}


def text(message: Message | str) -> str:
    """Return the text of a message; strings are returned unchanged."""
    return message if isinstance(message, str) else _words(message)


def texts(said: Iterable[Message | str]) -> list[str]:
    """Return the text of each message."""
    return [text(message) for message in said]


@singledispatch
def _words(message: object) -> str:
    raise TypeError(f"no words for {message!r}")


@_words.register
def _remark(message: messages.Remark) -> str:
    return _REMARKS[message.code]


# --- the start of a session


@_words.register
def _reading(message: messages.Reading) -> str:
    return f"reading {message.side or 'the same model'}"


@_words.register
def _first_run(message: messages.FirstRun) -> str:
    return f"running {message.side} for the first time"


@_words.register
def _in_a_pod(message: messages.InAPod) -> str:
    return f"{IN_A_POD}: {message.how}"


@_words.register
def _unmet(message: messages.Unmet) -> str:
    return finding_words.unmet(message.setting, message.missing)


@_words.register
def _skipped_checks(message: messages.SkippedChecks) -> str:
    return finding_words.skipped_checks(message.checks, message.enough_s)


@_words.register
def _long_start(message: messages.LongStart) -> str:
    return (
        f"starting ortune and reading the model took {message.start_s:.3g} s (budget {message.budget_s:.3g} s; "
        "slower on a busy machine)"
    )


@_words.register
def _resumed(message: messages.Resumed) -> str:
    return f"resumed an earlier session: {message.n_trials} trials reused"


@_words.register
def _not_stored(message: messages.NotStored) -> str:
    return f"results are not stored: {message.where} {message.what}"


@_words.register
def _quiet(message: messages.Quiet) -> str:
    seconds = waiting(message.seconds)
    state = {
        "waiting": f"waiting for a quiet machine, {seconds} at most",
        "quiet": f"waited {seconds} for a quiet machine",
        "busy": f"waited {seconds} and the machine is still busy",
    }[message.state]
    return f"{state}: other programs use {message.used_cpus:.1f} of {amount(message.cpus, 'CPU')}"


# --- inputs and outputs


@_words.register
def _failed_inputs(message: messages.FailedInputs) -> str:
    return f"these inputs failed ({message.what.splitlines()[0][:100]}); trying others"


@_words.register
def _sizes_in_turn(message: messages.SizesInTurn) -> str:
    sizes = message.sizes
    return f"memory grows when input sizes change, so {len(sizes)} sizes are fed in turn: {'; '.join(sizes)}"


@_words.register
def _not_evaluated(message: messages.NotEvaluated) -> str:
    exact = message.exact
    if exact.not_evaluated == "time":
        why = f"about {waiting(exact.needed_s)}, and at most {waiting(message.limit_s)} may be used for this"
    else:
        why = _NOT_EVALUATED[exact.not_evaluated]
    side = f"{message.side}: " if message.side else ""
    return f"{side}outputs were not compared with {EVALUATOR} ({why})"


@_words.register
def _levels_not_compared(message: messages.LevelsNotCompared) -> str:
    more = in_words(message.needed_s)
    return f"outputs with and without graph optimisation were not compared (about {more} more)"


@_words.register
def _not_located(message: messages.NotLocated) -> str:
    outputs = f"{message.side}'s outputs" if message.side else "outputs"
    what = {
        "non-finite": f"no time to locate the first node with non-finite values in {outputs}",
        "wrong": f"no time to locate the first wrong node of {outputs}",
    }[message.kind]
    return f"{what}: that takes {message.needed_s:.2g} s, more than the budget allows"


@_words.register
def _varying_outputs(message: messages.VaryingOutputs) -> str:
    cause = f" ({', '.join(message.operators)})" if message.operators else ""
    return (
        f"outputs vary from run to run{cause}, so only shape, "
        "finiteness, mean and standard deviation are compared"
    )


@_words.register
def _sensitive_outputs(message: messages.SensitiveOutputs) -> str:
    return (
        "outputs are sensitive to rounding: without graph optimisation, or with inputs one rounding step away, "
        f"they change by {message.moved_l2:.2g} (relative L2); "
        f"differences up to {message.accepted_l2:.2g} are accepted"
    )


@_words.register
def _excluded_outputs(message: messages.ExcludedOutputs) -> str:
    return f"excluded on request, so not compared: {', '.join(message.names)}"


# --- blocks of trials


@_words.register
def _download(message: messages.Download) -> str:
    speed = f"{8e3 * message.n_bytes / max(1, message.n_ns):.3g} Mbit/s"
    return f"download: {message.n_bytes / 2**20:.3g} MiB uncompressed at {speed} takes {message.n_ns / 1e9:.3g} s"


@_words.register
def _planned_blocks(message: messages.PlannedBlocks) -> str:
    return f"{message.n_blocks} blocks of {message.n_arms} trials of {message.trial_s:.2f} s"


@_words.register
def _calibration_block(message: messages.CalibrationBlock) -> str:
    return f"calibrating, block {message.number} of nine"


@_words.register
def _comparison_block(message: messages.ComparisonBlock) -> str:
    return f"comparing, block {message.number} of {message.most}"


@_words.register
def _awake_trials(message: messages.AwakeTrials) -> str:
    return f"waiting trials kept {100 * message.share_ratio:.0f} % of a CPU busy and disturbed the others"


# --- the race of tune


@_words.register
def _race_forecast(message: messages.RaceForecast) -> str:
    left_ns, trial_ns = message.left_ns, message.trial_ns
    said = (
        f"each trial takes {trial_ns / 1e9:.2f} s ({message.load_ns / 1e9:.2f} s to load); "
        f"{in_words(left_ns / 1e9)} are left for {int(left_ns / trial_ns)} trials, "
        f"about enough for {message.plans} of {message.wanted} configurations "
        f"and to confirm one to about ±{100 * message.confirmed_ratio:.0f} % on a quiet machine"
    )
    if message.plans == message.wanted:
        return said
    return f"{said}; to test all {message.wanted}: --budget {as_option(message.enough_s)}"


@_words.register
def _budget_too_short(message: messages.BudgetTooShort) -> str:
    return (
        f"{in_words(message.budget_s)} is too short to confirm even one change, because each trial takes "
        f"{message.trial_ns / 1e9:.1f} s (--budget {as_option(message.enough_s)} is enough)"
    )


@_words.register
def _exploration_forecast(message: messages.ExplorationForecast) -> str:
    plans, wanted = message.plans, message.wanted
    n = (
        f"at most {plans} of {wanted} configurations {'is' if plans == 1 else 'are'}"
        if wanted > 1
        else "the one configuration is"
    )
    return (
        f"{in_words(message.left_ns / 1e9)} are left, and confirming a change takes "
        f"{in_words(message.needed_ns / 1e9)}: {n} measured as exploratory "
        f"(--budget {as_option(message.enough_s)} is enough to confirm one)"
    )


@_words.register
def _failed_controls(message: messages.FailedControls) -> str:
    said = "the A/A check or the sensitivity check failed"
    if message.beyond_ns:
        beyond = in_words(message.beyond_ns / 1e9)
        more = f"repeating both and confirming a change would exceed the budget by {beyond}"
        return (
            f"{said}: {more}, so the rest is exploratory (--budget {as_option(message.enough_s)} is enough)"
        )
    if message.dropped:
        fit = f"{message.plans - message.dropped} of {message.plans} configurations"
        return f"{said}; both are repeated, which leaves time for {fit}"
    return f"{said}; both are repeated"


@_words.register
def _race_block(message: messages.RaceBlock) -> str:
    many = f"{message.ranked} of {message.plans}" if message.ranked else str(message.plans)
    return f"comparing {many} configurations"


@_words.register
def _leader(message: messages.Leader) -> str:
    n = amount(message.n_blocks, "block")
    interval = f"{message.low:.2f}-{message.high:.2f}x, " if message.high else ""
    return f"{message.speed_up:.2f}x ({interval}{n}) {message.plan}"


@_words.register
def _confirming_best(message: messages.ConfirmingBest) -> str:
    return f"confirming the best so far with nine blocks, about {in_words(message.seconds)}"


@_words.register
def _confirming(message: messages.Confirming) -> str:
    return f"confirming on {message.n_blocks} fresh blocks: {message.plan}"


# --- looking into a model


@_words.register
def _observing_values(message: messages.ObservingValues) -> str:
    moved = ", with inputs perturbed by one rounding step" if message.moved else ""
    return f"reading the values of {message.side}{moved}: part {message.part} of {message.n_parts}"


@_words.register
def _counting_kernels(message: messages.CountingKernels) -> str:
    return f"counting the kernels of {message.side}"


@_words.register
def _profiling_process(message: messages.ProfilingProcess) -> str:
    return f"profiling, process {message.number} of {message.most}"


@_words.register
def _measuring_peaks(message: messages.MeasuringPeaks) -> str:
    threads = " and ".join(map(str, message.threads))
    took = peak_duration(message.usual_s, message.most_s)
    return f"measuring the peaks of this machine, with {threads} threads: {took}"


def peak_duration(usual_s: float, most_s: float) -> str:
    """Return the duration of the peak measurement: "about 12 s, up to 36 s next to other programs"."""
    return f"about {usual_s:.0f} s, up to {most_s:.0f} s next to other programs"


@_words.register
def _peaks_not_stored(message: messages.PeaksNotStored) -> str:
    why = (
        f"{message.path} cannot be written ({message.why})" if message.path else "the home folder is unknown"
    )
    return f"the peaks are not stored: {why}"


@_words.register
def _skipped_inputs(message: messages.SkippedInputs) -> str:
    were = "was" if message.n_skipped == 1 else "were"
    return f"{message.n_skipped} of {message.n_sets} sets of inputs {were} skipped: {message.first}"


@_words.register
def _testing_models(message: messages.TestingModels) -> str:
    return f"testing {message.n_models} lower-precision models"
