"""``ortune compare --app``: an application without and with a bundle, by whole runs."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import msgspec
import numpy as np

from ortune.bundle import app
from ortune.errors import MeasurementError, UsageError
from ortune.measuring.document import document
from ortune.measuring.exclusive import exclusive
from ortune.measuring.scratch import scratch_folder
from ortune.measuring.watcher import Watcher
from ortune.recorder.whole_run import CpuShareMeter
from ortune.records import Block, Comparison, Control, Envelope, ModelInfo, Plan, Runtime, Side
from ortune.search import duel
from ortune.search.blocks import BASE, NEW, measured
from ortune.search.guards import guards
from ortune.stats.pairs import MOST_FLIPPED, wilcoxon_interval
from ortune.targets.machine import Machine
from ortune.verbs._shared.spelling import given_flags
from ortune.verbs.compare import app_words
from ortune.verbs.compare.app_runs import ARMS, AppRuns
from ortune.verbs.compare.given_blocks import judged
from ortune.verbs.compare.options import Options
from ortune.verbs.compare.result import AppComparison, AppMetric, CompareResult

BUSY_RATIO = 0.1
"""Fraction of the CPUs used by other programs from which CPU time, not wall time, decides the verdict."""
_OPTIONS = frozenset((
    "app", "b_with", "app_metric", "budget", "max_blocks", "seed", "no_wait", "store", "no_config", "export",
))  # fmt: skip
"""Names of the options that apply to whole runs of a program."""
_WALL, _CPU = "median", "cpu"


def run(options: Options, watch: Watcher) -> Envelope[CompareResult]:
    """Compare an application with and without the changes of a bundle.

    Raises:
        UsageError: The options do not select a bundle and a program, or the program cannot be started.
        MeasurementError: The program failed, or runs of the same side differ too much.
    """
    if options.app is None or options.b_with is None or str(options.a):
        raise UsageError(
            "--app compares a program without and with a bundle",
            do="ortune compare --app 'python app.py' --b-with app.ortune",
        )
    _require_effect(options)
    command = shlex.split(options.app)
    if not command:
        raise UsageError("the command is empty", where="--app", do="--app 'python app.py'")
    folder = Path(options.b_with)
    bundle = app.read(folder)
    changes, notes = app.changes(folder, bundle)
    pattern = _pattern(options.app_metric)
    with exclusive(options.app, watch, wait=not options.no_wait), scratch_folder() as scratch:
        runs = AppRuns(
            command=command, given=os.environ, changes=changes, variables=bundle.variables, scratch=scratch,
            pattern=pattern,
        )  # fmt: skip
        outputs, n_outputs, first = runs.outputs(watch.say)
        runs.metrics.clear()
        block_s = 3 * first.wall_ns / 1e9
        left_s = options.budget_s - watch.clock.spent_s
        n_blocks = max(1, min(options.max_blocks or MOST_FLIPPED, MOST_FLIPPED, int(left_s / block_s)))
        watch.say(app_words.within(first.wall_ns, n_blocks))
        rng = np.random.default_rng(options.seed)
        others = CpuShareMeter()
        blocks: list[Block] = []
        for index in range(n_blocks):
            if watch.stop():
                break
            watch.say(f"block {index + 1} of {n_blocks}")
            blocks.append(runs.block(index, [ARMS[i] for i in rng.permutation(len(ARMS))]))
        others_ratio = others.ratio()
    if not blocks:
        raise MeasurementError("stopped before anything was measured", do="run it again")
    wall, wall_control = _judged(blocks, _WALL)
    cpu, cpu_control = _judged(blocks, _CPU)
    by_cpu = not wall_control.ok or others_ratio is None or others_ratio > BUSY_RATIO
    control = cpu_control if by_cpu else wall_control
    if not control.ok:
        raise MeasurementError(
            "invalid: the A/A check failed, because runs of the same program differ",
            do="close other programs, or use a larger --budget",
        )
    found = msgspec.structs.replace(cpu if by_cpu else wall, guards=guards(blocks, "latency", arm=NEW))
    needed_s = watch.clock.spent_s + (duel.least_blocks(0.05) - len(blocks)) * block_s
    sides = [_side(name, options.app, bundle.ort_versions) for name in ("A", "B")]
    result = CompareResult(
        base=sides[0],
        new=sides[1],
        comparison=found,
        outputs=outputs,
        controls=(wall_control, cpu_control),
        notes=notes,
        enough_s=needed_s if len(blocks) < duel.least_blocks(0.05) else None,
        app=AppComparison(
            command=options.app,
            bundle=str(folder),
            basis="cpu" if by_cpu else "wall",
            wall=wall,
            cpu=cpu,
            memory=next((guard for guard in found.guards if guard.figure == "memory"), None),
            others_ratio=others_ratio,
            n_outputs=n_outputs,
            metric=_metric(runs),
        ),
    )
    verdict = found.verdict if outputs.comparable else "wrong-output"
    return document("compare", result, host=Machine().host, verdict=verdict)


def _require_effect(options: Options) -> None:
    """Raise UsageError if an option was given that has no effect on whole runs of a program."""
    for name, flag in given_flags(options).items():
        if name not in _OPTIONS:
            raise UsageError(
                "has no effect on whole runs of a program", where=flag, do=f"omit {flag}, or --app"
            )


def _judged(blocks: list[Block], statistic: str) -> tuple[Comparison, Control]:
    """Return the comparison of one statistic, and the A/A control between two runs without the changes."""
    comparisons, control = judged((NEW,), blocks, statistic)
    found = comparisons[NEW]
    runs = [trial.done for trial in measured(blocks, BASE)]
    base = float(np.median([run.wall_ns if statistic == _WALL else run.cpu_ns for run in runs]))
    return msgspec.structs.replace(found, base_value=base, new_value=base * found.ratio), control


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UsageError(f"is not a regular expression: {error}", where="--app-metric") from error
    if pattern.groups != 1:
        raise UsageError("needs one group, around the number", where="--app-metric", do="'took ([0-9.]+) ms'")
    return pattern


def _metric(runs: AppRuns) -> AppMetric | None:
    base, new = runs.metrics.get(ARMS[0], []), runs.metrics.get(NEW, [])
    if runs.pattern is None or not base:
        return None
    n = min(len(base), len(new))
    low = high = None
    if min(*base, *new) > 0 and n >= duel.least_blocks(0.05):
        interval = wilcoxon_interval(np.log(np.asarray(new[:n]) / np.asarray(base[:n])))
        low, high = float(np.exp(interval.low)), float(np.exp(interval.high))
    return AppMetric(
        pattern=runs.pattern.pattern,
        base=float(np.median(base)),
        new=float(np.median(new)),
        ratio_low=low,
        ratio_high=high,
    )


def _side(name: str, command: str, versions: tuple[str, ...]) -> Side:
    label = command if name == "A" else f"{command} with the bundle"
    model = ModelInfo(path="", format="onnx", sha256="", size_bytes=0)
    version = ", ".join(versions)
    return Side(
        label=label, model=model, plan=Plan(), runtime=Runtime(python="", ort_version=version, origin="")
    )
