"""What every verb that measures shares: the store, the lock of the machine, the journal, and saying what went wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ortune.errors import StoreError
from ortune.fleet import made
from ortune.fleet.environment import clean_environment, recorded
from ortune.fleet.packages import recipe
from ortune.records import Envelope, PodSize, Record
from ortune.store import lock
from ortune.store.db import SessionLog, Store
from ortune.targets.browser.setup import BrowserSetup
from ortune.targets.machine import Machine
from ortune.targets.task import Limits
from ortune.trials.baseline import LEAST_LOAD_S
from ortune.trials.sides import USUAL_LIMITS, Resolved, SideText, resolve
from ortune.trials.watcher import Watcher
from ortune.verbs._options import Kept, OnePlan, Stored, path
from ortune.verbs._page import write_page

R = TypeVar("R", bound=Record)


@dataclass(kw_only=True)
class Session:
    """One measurement from its start to its document.

    Attributes:
        verb: Who measures.
        store: Where it is kept; None where the user's own place cannot be written.
        wait: For another ortune that measures.
        budget_s: What measuring may take; None where nothing limits it.
        machine: What is measured on.
        log: The journal; one that keeps nothing until ``begin``.
        page: Where the answer goes as a page, beside it; None makes none.
        place: Of the store, where it is not the usual one.
        told: What could not be kept, as it was said.
    """

    verb: str
    store: Store | None
    watch: Watcher
    wait: bool
    budget_s: float | None
    machine: Machine
    log: SessionLog
    page: Path | None = None
    place: Path | None = None
    told: str = ""

    def measuring(self, label: str = "") -> contextlib.AbstractContextManager[None]:
        """The lock of the machine: two measurements at once are each other's noise."""
        what = f"{self.verb} {label}".rstrip()
        return exclusive(what, self.watch, wait=self.wait, budget_s=self.budget_s)

    def begin(self, key: str, **names: str) -> SessionLog:
        """Begins the journal; its header has the machine and the workers' environment."""
        if self.store:
            environment = recorded(clean_environment())
            header = {**names, "host": self.machine.host, "environment": environment}
            self.log = self.store.begin(self.verb, f"{self.verb} {key}", header)
            self.say_trouble()
        return self.log

    def keep(self, envelope: Envelope[R]) -> Envelope[R]:
        """Adds the answer to the journal, says what could not be kept, and writes the page that was asked for.

        Raises:
            UsageError: The page cannot be written; what was measured is stored.
        """
        if self.place is not None:
            envelope = msgspec.structs.replace(envelope, store=str(self.place))
        self.log.add("result", envelope)
        self.say_trouble()
        if self.page is not None:
            write_page(envelope, self.page, self.watch, self.log)
        return envelope

    def say_trouble(self) -> None:
        """Says what could not be kept, once."""
        if self.log.trouble not in ("", self.told):
            self.told = self.log.trouble
            self.watch.say(self.told)


@contextlib.contextmanager
def exclusive(what: str, watch: Watcher, *, wait: bool, budget_s: float | None = None) -> Iterator[None]:
    """The lock of the machine, for whatever would be another measurement's noise; waiting for it costs no budget."""
    held = lock.measuring(what, wait=wait, say=watch.say, line=watch.line, budget_s=budget_s)
    with contextlib.ExitStack() as stack:
        with watch.clock.stopped():
            stack.enter_context(held)
        yield


def machine_of(watch: Watcher, pod: PodSize | None = None, browser: BrowserSetup | None = None) -> Machine:
    """What is measured on: this machine, or the one that a simulation brings."""
    return (watch.machine or Machine)(pod, browser)


def make_runtime(named: str | None, watch: Watcher) -> None:
    """Makes the environment that is named, where it is to be made: once, and so of no budget."""
    if named is not None and recipe(named) is not None:
        with watch.clock.stopped():
            made.require(named, watch.say)


def rewriting_limits(options: OnePlan) -> Limits:
    """A rewrite may take as long as the first run of the model may; without a budget, as long as usual."""
    budget_s = getattr(options, "budget_s", None)
    return USUAL_LIMITS if budget_s is None else Limits(load_s=max(LEAST_LOAD_S, budget_s))


def resolver(
    options: OnePlan, scratch: Path, watch: Watcher, *, runs: bool = True
) -> Callable[..., Resolved]:
    """``resolve`` with what all sides of a verb have in common; ``runs``: whether it runs what is resolved."""
    wait = not getattr(options, "no_wait", False)
    limits = rewriting_limits(options)

    def resolved(side: SideText, **more: Any) -> Resolved:
        make_runtime(side.runtime, watch)
        watch.line(f"reading {side.text or 'the same model'}")
        found = resolve(
            side,
            common=options.common,
            scratch=scratch,
            custom_ops=options.feeds.custom_ops,
            limits=limits,
            browser=options.in_browser if runs else None,
            say=watch.say,
            # Rewriting is work that a measurement of another ortune would see.
            alone=lambda: exclusive("rewriting a model", watch, wait=wait),
            **more,
        )
        watch.line(f"running {found.label} for the first time")
        return found

    return resolved


@contextlib.contextmanager
def session(verb: str, options: Stored, watch: Watcher, machine: Machine | None = None) -> Iterator[Session]:
    """Opens the store for a verb and reads the machine; gives back at the end what outlives a trial.

    Args:
        verb: Who measures.
        options: What was asked.
        watch: Is told what happens.
        machine: One that was read already.

    Raises:
        UsageError: The container that is asked for cannot be emulated here.
    """
    machine = machine or machine_of(watch, options.feeds.pod, getattr(options, "in_browser", None))
    store, trouble = open_store(options.folder)
    if trouble:
        watch.say(trouble)
    log = SessionLog(None, "")
    try:
        yield Session(
            verb=verb,
            store=store,
            watch=watch,
            wait=not options.no_wait,
            budget_s=options.budget_s if isinstance(options, Kept) else None,
            machine=machine,
            log=log,
            page=path(options.report) if isinstance(options, Kept) else None,
            place=options.folder,
        )
    finally:
        machine.close()
        if store:
            store.close()


def open_store(folder: Path | None) -> tuple[Store | None, str]:
    """The store; where the user's own place cannot be written, none, with a sentence."""
    try:
        return Store(folder), ""
    except StoreError as error:
        if folder is not None:
            raise
        return None, f"nothing will be kept: {error.where} {error.what}; {error.do}"
