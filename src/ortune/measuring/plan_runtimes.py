"""Chooses the runtime of a plan: the given one, or one with the execution provider, web or Node.js package it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ortune import targets
from ortune.catalogue.providers import CPU, NODE
from ortune.errors import UsageError
from ortune.records import Plan, Runtime
from ortune.runtimes import made, node
from ortune.targets.browser.setup import BrowserSetup, ort_web


def with_providers(
    plan: Plan, runtime: Runtime, named: str | None, requirements: Sequence[str] = ()
) -> Runtime:
    """Return the runtime for a plan: the given runtime, or an installed one if that lacks an execution provider.

    A runtime that the user named is not replaced. A runtime with exactly a bundle's packages is preferred, whatever its
    name, then the runtime of the execution provider.
    """
    names = {provider.name for provider in plan.providers}
    if named or plan.is_web or plan.is_node or names <= {CPU.name, *runtime.offered}:
        return runtime
    there = [one for one in made.installed() if names <= {CPU.name, *one.runtime.offered}]
    wanted, target = set(requirements), targets.target_of(plan).name
    there.sort(key=lambda one: (set(made.pinned(one)) != wanted, one.name != target))
    return there[0].runtime if there else runtime


def with_web_or_node(
    runtime: Runtime,
    plan: Plan,
    browser: BrowserSetup | None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Runtime:
    """Return the runtime, with an onnxruntime-web or onnxruntime-node package if the plan needs one.

    Args:
        runtime: The runtime of the side.
        plan: The plan of the side.
        browser: The browser for pages; None if nothing is to be started.
        say: Callback for progress messages.

    Raises:
        UsageError: The runtime is onnxruntime-node, and the plan has another target.
        RuntimeNotFound: The package is missing and cannot be fetched.
    """
    if runtime.node is not None and not plan.is_node:
        where = targets.target_of(plan).name
        raise UsageError(
            f"{runtime.node.called} does not run the target {where}",
            where=f"--target {where}",
            do=f"--target {NODE.target}, or omit --runtime",
        )
    if browser is None or runtime.node is not None:
        return runtime
    if plan.is_node:
        return msgspec.structs.replace(runtime, node=node.find(say=say))
    if not plan.is_web:
        return runtime
    web = ort_web(browser)
    return msgspec.structs.replace(runtime, ort_web=web.version, ort_web_dist=str(web.dist))
