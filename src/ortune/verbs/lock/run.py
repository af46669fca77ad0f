"""``ortune lock``: stores a snapshot of how ONNX Runtime runs a model, for later comparison. Nothing is timed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from ortune import files, rewrites
from ortune.bundle import format as bundle_format
from ortune.bundle.shared import thread_cap
from ortune.engines.locks.check import differences
from ortune.engines.locks.file import read, write
from ortune.engines.locks.take import LIMIT_S, take_snapshot
from ortune.errors import ModelError, UsageError
from ortune.measuring.budget import UNLIMITED
from ortune.measuring.document import document
from ortune.measuring.first_run import find_checked_inputs
from ortune.measuring.input_options import InputOptions
from ortune.measuring.sides import ResolvedSide, SideText, resolve
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, Plan, Snapshot
from ortune.runtimes import runtimes
from ortune.search.plan_edits import merge
from ortune.targets.machine import Machine
from ortune.verbs._shared.applications import recording_of
from ortune.verbs._shared.session import experiment
from ortune.verbs._shared.spelling import named
from ortune.verbs._shared.watching import with_words
from ortune.verbs.lock import words as lock_words
from ortune.verbs.lock.options import Options
from ortune.verbs.lock.result import LockResult


def run(options: Options, watcher: Watcher | None = None) -> Envelope[LockResult]:
    """Write a snapshot of a model, or compare the model with a snapshot that was written earlier.

    Returns:
        The whole document, with a LockResult as ``result`` and the ``verdict`` "written", "unchanged" or "changed".
        For a recording, the document of ``verbs/_app_lock``.

    Raises:
        OrtuneError: The model, a setting or the lock file cannot be used.
    """
    watch = with_words(watcher)
    recording = recording_of(options.model)
    if recording is not None:
        from ortune.verbs._app_lock.run import lock

        application: Envelope[Any] = lock(options, recording)
        return application
    path = options.place
    was = read(path, str(options.model)) if options.check else None
    if was is None and options.output is None:  # one that was typed has been tried
        files.require_writable(path, "--output")
    with (
        experiment("lock", options, watch, timed=False) as opened,
        opened.measuring(str(options.model)),
    ):
        scratch, machine = opened.scratch, opened.machine
        watch.line(f"reading {options.model}")
        side, stored, overrides = _side(options, was, scratch, machine, watch)
        watch.say(f"using {runtimes.describe(side.runtime)}")
        watch.line("running the model")
        inputs = _inputs(options, was)
        place = scratch / "first-run"
        place.mkdir()
        baseline = opened.base_measuring(side, feeds=inputs, scratch=place, say=watch.line)
        find_checked_inputs(baseline, UNLIMITED, limit_s=LIMIT_S)
        if baseline.lowered is not None:
            finding = baseline.alerts[0]
            raise ModelError(finding.what, where=str(options.model), do=finding.fix)
        now = take_snapshot(side, inputs, scratch, watch, machine, stored=stored, overrides=overrides)
    if was is None:
        write(path, now, typed=options.output is not None)
        result = LockResult(path=str(path), written=True, snapshot=now, headline=lock_words.written(path))
        verdict = "written"
    else:
        drift = differences(was, now, tolerance=options.allowed, strict=options.strict)
        why = {missing: lock_words.uncompared(missing, was, now) for missing in drift.uncompared}
        said = {missing.part: text for missing, text in why.items()}
        changes = tuple(
            msgspec.structs.replace(c, now=said[c.name]) if c.part == "not-compared" else c
            for c in drift.changes
        )
        result = LockResult(
            path=str(path),
            written=False,
            snapshot=now,
            changes=changes,
            headline=lock_words.headline(was, now, changes, drift.not_compared, drift.tolerance_ratio),
            notes=tuple(text for missing, text in why.items() if not (options.strict and missing.part)),
            not_compared=drift.not_compared,
            tolerance_ratio=drift.tolerance_ratio,
        )
        verdict = "changed" if any(c.fails for c in drift.changes) else "unchanged"
    return document(
        "lock",
        result,
        host=machine.host,
        model=side.model.ref,
        workload=baseline.work,
        verdict=verdict,
        alerts=baseline.alerts,
    )


def _side(
    o: Options, was: Snapshot | None, scratch: Path, machine: Machine, watch: Watcher
) -> tuple[ResolvedSide, Plan, Plan | None]:
    """Return the side to run, the plan to store in the lock, and the options that were added to a bundle's plan.

    A check runs the locked plan with the current options. For a bundle, only the added options come from the lock,
    because the bundle's plan is subject to the check.
    """
    rewritten = Plan(rewrites=tuple(rewrites.parse(text) for text in o.rewrite))
    model, asked = Path(o.model), merge(o.common, rewritten)
    bundle = bundle_format.read(model) if bundle_format.is_bundle(model) else None
    if was is not None:
        locked = (
            _limited_to_cpus(was.run.plan, machine.host.effective_cpus) if bundle is None else was.run.given
        )
        asked = merge(locked or Plan(), asked)
    text = SideText(text=str(o.model), settings=asked.assignments, runtime=named(o.runtime))
    common = msgspec.structs.replace(asked, settings={})
    libraries = o.feeds.custom_ops
    side = resolve(
        text, common=common, scratch=scratch, custom_ops=libraries, browser=o.in_browser, say=watch.say
    )
    if side.runtime.host is not None:
        raise UsageError(
            "runs on another machine, and a lock describes this one",
            where=f"--runtime {side.runtime.python}",
            do="lock with a runtime of this machine",
        )
    if side.model.in_ort_format:
        raise ModelError(
            "A model in ORT format is already optimised, so there is nothing to lock.",
            where=str(side.model.path),
            do="Lock the .onnx that it was converted from.",
        )
    if bundle is None:
        return side, side.plan, None
    own = bundle.plan.settings
    settings = {k: v if k in asked.settings else own.get(k, v) for k, v in side.plan.settings.items()}
    return side, msgspec.structs.replace(side.plan, settings=settings), asked


def _limited_to_cpus(plan: Plan, cpus: int) -> Plan:
    """Return a stored plan with its thread counts limited to the CPUs of this machine."""
    counts = {name: thread_cap(value) for name, value in plan.settings.items()}
    settings = {k: v if (n := counts[k]) is None else min(n, cpus) for k, v in plan.settings.items()}
    return msgspec.structs.replace(plan, settings=settings)


def _inputs(o: Options, was: Snapshot | None) -> InputOptions:
    """Return the inputs: the user's, or for a check without inputs the seed and shapes of the lock."""
    if was is None or o.feeds.inputs:
        return replace(o.feeds, seed=o.seed or 0)
    return replace(o.feeds, seed=was.run.seed if o.seed is None else o.seed, kept=was.run.shapes)


def exit_code(envelope: Envelope[LockResult]) -> int:
    """Return 1 if a relevant part changed, or else 0."""
    return 1 if envelope.verdict == "changed" else 0
