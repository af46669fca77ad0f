"""Determines the costs of other execution providers from the race's trials: device, load time, memory."""

from __future__ import annotations

from ortune.bundle.settings import providers as options_of
from ortune.bundle.settings import resolve
from ortune.catalogue import providers
from ortune.catalogue.providers import CPU
from ortune.engines.racing.tuning import Tuning
from ortune.records import Figures, Measured, Plan, ProviderCost
from ortune.search.blocks import BASE, measured
from ortune.search.figures import describe
from ortune.search.halving import Entry


def provider_costs(
    run: Tuning, shipped: Plan, winner: Figures | None, default: Figures
) -> tuple[ProviderCost, ...]:
    """Return the costs of each execution provider other than the default's, from its fastest plan in the race.

    The shipped plan's costs are from the final measurements, with sessions created one at a time. Other providers'
    costs are from the race, where all processes of a block load at once, and are compared with the default's there.
    """
    race, statistic = run.search.race, run.search.judgement.statistic
    best: dict[str, Entry] = {}
    for entry in sorted((e for e in race.entries.values() if e.trials), key=lambda e: e.median_log_ratio):
        best.setdefault(entry.plan.provider_names[0], entry)
    best.pop(run.search.default.provider_names[0], None)
    of_default = measured(race.all_blocks, BASE)
    costs = []
    for name, entry in best.items():
        if winner is not None and shipped.provider_names[0] == name:
            new, base = winner, default
        else:
            new, base = (describe(trials, statistic) for trials in (entry.trials, of_default or entry.trials))
        costs.append(
            ProviderCost(
                provider=name,
                device=device_of(entry.plan, entry.trials[-1]),
                load_ns=new.load_ns,
                default_load_ns=base.load_ns,
                first_load_ns=new.first_load_ns,
                peak_bytes=new.peak_bytes,
                default_peak_bytes=base.peak_bytes,
                shipped=new is winner,
                gpu_run=run.baseline.gpu_runs.get(name),
            )
        )
    return tuple(costs)


def device_of(plan: Plan, trial: Measured) -> str:
    """Return the device on which a plan ran, with its vendor if that is unique, such as "NVIDIA GPU" or "CPU"."""
    name = plan.provider_names[0]
    provider = providers.find(name)
    asked = dict(options_of(plan, resolve(plan)))[name].get("device_type", "")
    kind = "/".join(trial.done.devices) or asked or provider.hardware or CPU.hardware
    plug_in = next((build.vendor for build in provider.builds if build.beside and trial.done.devices), "")
    return f"{provider.vendor or plug_in} {kind.upper()}".strip()
