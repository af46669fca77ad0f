"""Finds the part of a plan whose gain does not depend on other programs.

A winner with rewrites and fewer threads gains partly because other programs use the CPUs. That part of the gain should
neither justify settings nor prevent the rewrites, so the plan without such settings is confirmed in the same blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from ortune.records import Block, Host, Plan
from ortune.search.blocks import BASE, measured
from ortune.search.waiting import load_settings, quiet_cpus, waiting_of

Set = TypeVar("Set")
"""A value of a setting, or of a provider option."""


def without_load_settings(plan: Plan, base: Plan, blocks: Sequence[Block], host: Host) -> Plan | None:
    """Return a plan without the settings whose gain depends on other programs.

    None if other programs do not use the CPUs, if the plan has no such setting, or if it has only such settings.

    Args:
        plan: The leader of a search.
        base: The plan that the leader would replace, from which such settings are taken.
        blocks: Blocks of the search.
        host: The machine.
    """
    rest = _without(plan, base)
    return rest if rest not in (plan, base) and _busy(blocks, host) else None


def _busy(blocks: Sequence[Block], host: Host) -> bool:
    """Return whether other programs used more CPUs than on a quiet machine, by the median of the baseline's trials."""
    seen = [waiting_of(trial, host) for trial in measured(blocks, BASE)]
    used = [each.used_cpus for each in seen if each is not None]
    return bool(used) and float(np.median(used)) > quiet_cpus(host)


def _without(plan: Plan, base: Plan) -> Plan:
    names, options = load_settings()
    of_base = {provider.name: provider.options for provider in base.providers}
    return msgspec.structs.replace(
        plan,
        settings=_with_base_settings(plan.settings, base.settings, names),
        providers=tuple(
            msgspec.structs.replace(
                provider,
                options=_with_base_settings(
                    provider.options,
                    of_base.get(provider.name, {}),
                    {key for name, key in options if name == provider.name},
                ),
            )
            for provider in plan.providers
        ),
    )


def _with_base_settings(mine: Mapping[str, Set], base: Mapping[str, Set], names: set[str]) -> dict[str, Set]:
    """Return the settings of a plan, with the named settings replaced by the base's."""
    kept = {name: value for name, value in mine.items() if name not in names}
    return kept | {name: value for name, value in base.items() if name in names}
