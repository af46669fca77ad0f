"""``ortune history``: one model under the last releases of ONNX Runtime, in the same blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

from ortune.errors import RuntimeNotFound, UsageError
from ortune.experiment.releases import Releases
from ortune.experiment.watcher import Watcher
from ortune.fleet import made
from ortune.fleet.packages import RELEASES, require_recipes
from ortune.knobs import parse_settings, version
from ortune.records import Envelope, HistoryResult, Plan, Runtime
from ortune.search.figures import require_objective
from ortune.trials.sides import SideText, resolve
from ortune.verbs._options import (
    MODEL,
    AnyPath,
    Argument,
    Budget,
    Objective,
    Option,
    Resumable,
    Settings,
    Tolerance,
    command,
    words,
)
from ortune.verbs._session import experiment, go_on, keep

FORMATS = ("text", "json", "markdown", "html")
STOPPING = "stopping after this block; results so far will be shown. Ctrl-C again stops immediately"


@dataclass(frozen=True, kw_only=True)
class Options(Resumable):
    """Which release of ONNX Runtime made this model faster or slower here?

    Runs the last six releases in the same blocks, each in its own cached environment, and reports the release where
    the speed changed.
    """

    model: Annotated[AnyPath, Argument("MODEL", "model.onnx, model.ort or model.onnx@git-revision.")]
    release: Annotated[
        Sequence[str],
        Option("--release", "1.31.1", "A release to test instead of the last six. Pass at least two.", MODEL),
    ] = ()
    set: Settings = ()
    objective: Objective = "latency"
    tolerance: Tolerance = None
    budget: Budget = "4m"

    @cached_property
    def releases(self) -> tuple[str, ...]:
        """The releases to run, newest first."""
        if len(self.release) == 1:
            raise UsageError(
                "a history needs at least two releases", where="--release", do="pass two or more releases"
            )
        require_objective(self.objective)
        releases = sorted(dict.fromkeys(self.release or RELEASES), key=version, reverse=True)
        for release in releases:
            require_recipes(f"onnxruntime=={release}")
        return tuple(releases)

    @cached_property
    def plan(self) -> Plan:
        """What every release runs with."""
        return Plan(settings=parse_settings(list(self.set)))


def run(options: Options, watcher: Watcher | None = None) -> Envelope[HistoryResult]:
    """Measures the releases and names those where it changed.

    Raises:
        RuntimeNotFound: Fewer than two of the releases could be made.
        OrtuneError: Nothing could be measured.
    """
    watch = watcher or Watcher()
    with experiment("history", options, watch) as opened:
        with watch.clock.stopped():  # made once, and so of no budget
            runtimes, missing = _runtimes(options, watch)
        text = SideText(text=str(options.model), runtime=f"onnxruntime=={next(iter(runtimes))}")
        side = resolve(text, common=options.plan, scratch=opened.scratch, say=watch.say)
        with opened.measuring(side.label):
            go_on(
                opened,
                options,
                [replace(side, runtime=runtime) for runtime in runtimes.values()],
                model=side.label,
            )
            releases = Releases(
                opened,
                opened.base(side),
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
                verdict=result.whole.verdict if result.whole else "inconclusive",
            )
        return keep(opened, options, envelope)


def _runtimes(options: Options, watch: Watcher) -> tuple[dict[str, Runtime], dict[str, str]]:
    """The releases that are there or could be made, newest first; and of the others, why not."""
    runtimes, missing = {}, {}
    for release in options.releases:
        try:
            runtimes[release] = made.require(f"onnxruntime=={release}", watch.say).runtime
        except RuntimeNotFound as error:
            missing[release] = error.what
            watch.say(str(error))
    if len(runtimes) < 2:
        why = next(iter(missing.values()))
        raise RuntimeNotFound(
            f"a history needs two releases: {why}", do="run ortune runtime add with network access"
        )
    return runtimes, missing
