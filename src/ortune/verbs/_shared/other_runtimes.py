"""Additional runtimes for execution providers that the runtime of a side does not have."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import replace

from ortune import targets
from ortune.catalogue.providers import CPU
from ortune.errors import RuntimeNotFound, UsageError
from ortune.measuring.plan_runtimes import with_web_or_node
from ortune.measuring.sides import ResolvedSide
from ortune.records import Plan, Runtime
from ortune.runtimes import made
from ortune.targets import Target
from ortune.targets.browser.setup import BrowserSetup
from ortune.verbs._shared import other_runtimes_words as words

AUTO, ALL = "auto", "all"
"""Values of ``--targets``: all targets that run here; "all" also includes targets that can be installed."""


def named(text: str | None) -> tuple[str, ...]:
    """Return the targets that ``--targets`` names, without the CPU; () for all targets that run here.

    Raises:
        UsageError: A name is not a target, or bundles do not support it.
    """
    if text is None or text in (AUTO, ALL):
        return ()
    names = dict.fromkeys(name.strip() for name in text.split(","))
    for name in names:
        if not targets.find(name).provider.ships:
            raise UsageError(f"bundles are not supported for {name} yet", where="--targets")
    return tuple(name for name in names if name != CPU.target)


def with_targets(
    side: ResolvedSide, names: Sequence[str], say: Callable[[str], None], browser: BrowserSetup | None = None
) -> ResolvedSide:
    """Return the side with a runtime for each named target; missing runtimes are installed.

    Raises:
        UsageError: A name is not a target, or the side's runtime is on another machine.
        RuntimeNotFound: No runtime has a target's provider, and none can be installed.
    """
    wanted = [targets.find(name) for name in names]
    if side.runtime.host is not None and any(target.providers for target in wanted):
        raise UsageError(
            "other runtimes are on this machine, and --runtime is on another one",
            where=f"--targets {','.join(names)}",
            do="omit --targets",
        )
    runtimes = {
        target.name: _runtime(target, side.runtime, say, browser) for target in wanted if target.providers
    }
    return replace(side, elsewhere=runtimes)


def usable_here(
    side: ResolvedSide, say: Callable[[str], None], *, alone: bool = False, install: bool = False
) -> ResolvedSide:
    """Return the side with a runtime for each further target that bundles support and that runs here.

    Emulated devices are skipped, because their times are not real.

    Args:
        side: The base of the comparison; no targets are added if its plan names a provider or its runtime is remote.
        say: Callback for progress messages.
        alone: Whether to use only the side's runtime, not the runtimes that ortune installed.
        install: Whether to install missing runtimes that can be installed here.
    """
    if side.plan.providers or side.runtime.host is not None:
        return side
    wanted = [t for t in targets.all_targets().values() if t.of_runtime and t.providers and t.provider.ships]
    runtimes: dict[str, Runtime] = {}
    for target in wanted:
        if target.provider.name in side.runtime.offered:
            report = target.discover(side.runtime)
            if report.usable and not report.emulated:
                runtimes[target.name] = side.runtime
    # What the side's own runtime has needs no other package, so environments that ortune made come second.
    there = [] if alone else [environment for environment in made.installed() if not environment.emulated]
    runtimes |= {
        environment.name: environment.runtime
        for environment in there
        for t in wanted
        if t.name == environment.name not in runtimes
    }
    skipped: list[str] = []
    if install:
        for addition in made.addable():
            if addition.name in {t.name for t in wanted} - set(runtimes):
                try:
                    one = made.require_installed(addition.name, say)
                except RuntimeNotFound as error:
                    say(words.skipped(addition.name, error.what))
                    skipped.append(addition.name)
                    continue
                runtimes |= {} if one.emulated else {one.name: one.runtime}
    for name, runtime in runtimes.items():
        wheel = runtime.plugins.get(targets.find(name).provider.name, runtime.native)
        say(words.also_compared(name, wheel))
    if install:
        _say_others([t for t in wanted if t.name not in (*runtimes, *skipped)], say)
    return replace(side, elsewhere=runtimes)


def _say_others(others: Sequence[Target], say: Callable[[str], None]) -> None:
    """Report the targets that are not compared although all targets were requested, grouped by reason."""
    emulated = {environment.name for environment in made.installed() if environment.emulated}
    names: dict[str, list[str]] = {}
    for target in others:
        builds = target.provider.builds
        software = target.name in emulated or platform.machine() in {m for b in builds for m in b.emulated_on}
        why = words.EMULATED if software else target.where_it_is(platform.system())
        names.setdefault(why, []).append(target.name)
    for why, alike in names.items():
        say(words.not_compared(alike, why))


def _runtime(
    target: Target, own: Runtime, say: Callable[[str], None], browser: BrowserSetup | None
) -> Runtime:
    report = target.discover(own, browser)
    if report.usable:
        return with_web_or_node(own, Plan(providers=target.providers), browser or BrowserSetup())
    if not target.provider.builds:
        raise RuntimeNotFound(
            report.why, where=f"--targets {target.name}", do="pass a build that has it: --runtime PATH"
        )
    return made.find(target.name, say)
