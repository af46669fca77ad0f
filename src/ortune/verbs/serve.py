"""``ortune serve``: a bench in a browser elsewhere, which somebody opens by hand."""

from __future__ import annotations

from dataclasses import dataclass

from ortune.errors import UsageError
from ortune.records import WEB_TARGETS, BenchResult, Envelope
from ortune.trials.scratch import scratch_folder
from ortune.trials.watcher import Watcher
from ortune.verbs import bench
from ortune.verbs._elsewhere import Listening, browser_elsewhere
from ortune.verbs._options import OneBench, Target

FORMATS = ("text", "json", "markdown", "html")
STOPPING = "stopping after this process, then telling what is known; Ctrl-C again stops at once"


@dataclass(frozen=True, kw_only=True)
class Options(Listening, OneBench):
    """How long does this model take in a browser on a phone or another machine?

    Shows an address that somebody opens there; then measures as bench does. Only who has the address is let in.
    """

    target: Target = "web-wasm"


def run(options: Options, watcher: Watcher | None = None) -> Envelope[BenchResult]:
    """Waits for a browser, measures one plan in it and returns the whole document.

    Raises:
        OrtuneError: No browser came, or nothing could be measured; the exit code is the error's.
    """
    watch = watcher or Watcher()
    bench.check("serve", options)
    if options.target not in WEB_TARGETS:
        what = f"{options.target} is not in a browser"
        raise UsageError(what, where="--target", do="--target web-wasm, web-webgpu, web-webgl or web-webnn")
    with scratch_folder() as scratch, browser_elsewhere(options, [options.target], scratch, watch) as machine:
        return bench.measured("serve", options, watch, machine)
