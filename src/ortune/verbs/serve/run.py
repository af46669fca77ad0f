"""``ortune serve``: a benchmark in a browser on another device, on which the user opens a page."""

from __future__ import annotations

from ortune.catalogue.providers import of_target
from ortune.errors import UsageError
from ortune.measuring.scratch import scratch_folder
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope
from ortune.targets import in_browsers
from ortune.verbs._shared.remote_browser import remote_browser
from ortune.verbs._shared.watching import with_words
from ortune.verbs.bench import run as bench
from ortune.verbs.bench.result import BenchResult
from ortune.verbs.serve.options import Options


def run(options: Options, watcher: Watcher | None = None) -> Envelope[BenchResult]:
    """Wait for a browser to connect, measure one plan in it, and return the whole document.

    Raises:
        OrtuneError: No browser connected, or nothing could be measured; the exit code is the error's.
    """
    watch = with_words(watcher)
    bench.check("serve", options)
    if not of_target(options.target).in_page:
        names = in_browsers()
        raise UsageError(
            f"{options.target} is not in a browser",
            where="--target",
            do=f"--target {', '.join(names[:-1])} or {names[-1]}",
        )
    with scratch_folder() as scratch, remote_browser(options, [options.target], scratch, watch) as machine:
        return bench.measured("serve", options, watch, machine)
