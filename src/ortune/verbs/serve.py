"""``ortune serve``: a bench in a browser elsewhere, which somebody opens by hand."""

from __future__ import annotations

from dataclasses import dataclass

from ortune.errors import UsageError
from ortune.experiment.scratch import scratch_folder
from ortune.experiment.watcher import Watcher
from ortune.providers import of_target
from ortune.providers.web_wasm import PROVIDER as WASM
from ortune.records import BenchResult, Envelope
from ortune.targets import in_browsers
from ortune.verbs import bench
from ortune.verbs._elsewhere import Listening, browser_elsewhere
from ortune.verbs._options import OneBench, Target

FORMATS = ("text", "json", "markdown", "html")
STOPPING = "stopping after this process; results so far will be shown. Ctrl-C again stops immediately"


@dataclass(frozen=True, kw_only=True)
class Options(Listening, OneBench):
    """How fast is this model in a browser on a phone or another machine?

    Shows a URL to open there, then measures like bench. The URL contains a secret token.
    """

    target: Target = WASM.target


def run(options: Options, watcher: Watcher | None = None) -> Envelope[BenchResult]:
    """Waits for a browser, measures one plan in it and returns the whole document.

    Raises:
        OrtuneError: No browser came, or nothing could be measured; the exit code is the error's.
    """
    watch = watcher or Watcher()
    bench.check("serve", options)
    if not of_target(options.target).in_page:
        what, names = f"{options.target} is not in a browser", in_browsers()
        raise UsageError(what, where="--target", do=f"--target {', '.join(names[:-1])} or {names[-1]}")
    with scratch_folder() as scratch, browser_elsewhere(options, [options.target], scratch, watch) as machine:
        return bench.measured("serve", options, watch, machine)
