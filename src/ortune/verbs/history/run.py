"""``ortune history``: compares one model under the latest releases of ONNX Runtime in the same blocks."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from ortune import assigned_host
from ortune.catalogue.providers import CPU
from ortune.errors import MeasurementError, RuntimeNotFound, UsageError
from ortune.measuring.sides import SideText, resolve
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, Runtime
from ortune.runtimes.packages import placed, sendable, split_placed
from ortune.targets import named_runtimes
from ortune.verbs._shared.session import begin_or_resume, experiment, store_result
from ortune.verbs._shared.spelling import command, named, words
from ortune.verbs._shared.watching import with_words
from ortune.verbs.history import growth
from ortune.verbs.history.options import Options
from ortune.verbs.history.releases import Releases
from ortune.verbs.history.result import HistoryResult


def run(options: Options, watcher: Watcher | None = None) -> Envelope[HistoryResult]:
    """Measure the releases, and find the releases in which something changed.

    Raises:
        RuntimeNotFound: Fewer than two of the releases are available.
        OrtuneError: Nothing could be measured.
    """
    watch = with_words(watcher)
    with experiment("history", options, watch) as opened:
        with watch.clock.stopped():  # made once, and so of no budget
            _require_applicable(options)
            runtimes, missing = _runtimes(options, watch)
        text = SideText(text=str(options.model), runtime=_named(next(iter(runtimes)), options))
        side = resolve(text, common=options.plan, scratch=opened.scratch, say=watch.say)
        opened.measure_at(side.runtime, side.plan)
        with opened.measuring(side.label):
            begin_or_resume(
                opened,
                options,
                [replace(side, runtime=runtime) for runtime in runtimes.values()],
                options.resume,
                model=side.label,
            )
            if options.objective == "memory-growth":
                soaked = growth.measure(opened, opened.base_measuring(side), runtimes, missing)
                soaked = msgspec.structs.replace(soaked, reproduce=command("history", options))
                document = opened.document(soaked, status="interrupted" if watch.stop() else "ok")
                return store_result(opened, options, document)
            releases = Releases(
                opened,
                opened.base_measuring(side),
                runtimes,
                missing,
                objective=options.objective,
                seed=options.seed,
            )
            releases.measure()
            again = words(options, without=("release", "budget"))
            result = releases.result(again=again, reproduce=command("history", options))
            envelope = opened.document(
                result,
                status="interrupted" if watch.stop() else "ok",
                verdict=(
                    "invalid"
                    if releases.invalid
                    else result.whole.verdict
                    if result.whole
                    else "inconclusive"
                ),
            )
        return store_result(opened, options, envelope)


def exit_code(envelope: Envelope[HistoryResult]) -> int:
    """Return 3 if the controls failed, so that no time is known, or else 0."""
    return MeasurementError.exit_code if envelope.verdict == "invalid" else 0


def _require_applicable(options: Options) -> None:
    """Raise UsageError for a script that starts Python on this machine, or for memory growth on another machine."""
    script = named(options.runtime)
    elsewhere = assigned_host.assigned.get() is not None
    if script is not None and not elsewhere:
        there = named_runtimes.machine_of(split_placed(script)[1] or script)
        if not there.python_version:
            return  # the reason is given for the first release
        elsewhere = there.host is not None
        if not elsewhere:
            raise UsageError(
                "the script starts a Python of this machine",
                where=f"--runtime {script}",
                do="omit --runtime",
            )
    if elsewhere and options.objective == "memory-growth":
        raise UsageError(
            "memory over time is measured on this machine only",
            where="--objective memory-growth",
            do="run the command there, or pass another objective",
        )


def _named(release: str, options: Options) -> str:
    """Return the value of ``--runtime`` that selects a release on the machine that the options select."""
    name, script = f"{CPU.wheel}=={release}", named(options.runtime)
    if script is not None:
        script = split_placed(script)[1] or script
        if assigned_host.assigned.get() is not None and sendable(script):
            script = None
    return name if script is None else placed(script, name)


def _runtimes(options: Options, watch: Watcher) -> tuple[dict[str, Runtime], dict[str, str]]:
    """Find the runtimes of the releases, and install missing releases.

    Returns:
        The runtimes by release, newest first, and the reasons why other releases are missing.
    """
    runtimes, missing = {}, {}
    for release in options.releases:
        try:
            runtimes[release] = named_runtimes.find(_named(release, options), watch.say)
        except RuntimeNotFound as error:
            missing[release] = error.what
            watch.say(str(error))
    if len(runtimes) < 2:
        why = next(iter(missing.values()))
        raise RuntimeNotFound(
            f"a history needs two releases: {why}", do="run ortune runtime add with network access"
        )
    return runtimes, missing
