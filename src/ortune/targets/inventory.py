"""Inventory of a runtime: its packages, the provider of every target, and its problems."""

from __future__ import annotations

from pathlib import Path

from ortune import targets
from ortune.catalogue.providers import REMOTE
from ortune.records import ProviderReport, Runtime, RuntimeReport
from ortune.runtimes.probe import ProbeReport, ask
from ortune.runtimes.runtimes import builds
from ortune.targets.browser.setup import BrowserSetup
from ortune.targets.discover import provider_report


def report(runtime: Runtime, browser: BrowserSetup | None = None) -> RuntimeReport:
    """Return the report of a runtime for ``ortune doctor``.

    This starts one process for the installed packages, one for each provider except the CPU's, and the browser once.

    Args:
        runtime: The runtime.
        browser: The user's options for the browser.
    """
    look = ask(runtime.python, "look") if Path(runtime.python).is_file() else ProbeReport()
    reports: list[ProviderReport] = []
    if look.providers:
        own = dict.fromkeys([*look.providers, *look.plugins])
        reports += [provider_report(name, runtime) for name in own if name != REMOTE.name]
        named = {item.name for item in reports}
        others = [target for target in targets.all_targets().values() if target.provider.name not in named]
        reports += [target.discover(runtime, browser) for target in others]
    installed = builds(look)
    return RuntimeReport(
        runtime=runtime,
        providers=tuple(reports),
        packages={wheel.name: wheel.version for wheel in look.wheels},
        problems=(runtime.error,) if runtime.error else (),
        overlapping={wheel.name: wheel.version for wheel in installed} if len(installed) > 1 else {},
    )
