"""Whether threads keep spinning after a run, which several settings decide together."""

from __future__ import annotations

from ortune.catalogue import knobs
from ortune.catalogue.named import ALLOW_SPINNING as SPIN
from ortune.catalogue.named import EXECUTION_MODE as MODE
from ortune.catalogue.named import FORCE_SPINNING_STOP as STOP
from ortune.catalogue.named import INTER_OP_ALLOW_SPINNING as INTER_SPIN
from ortune.catalogue.named import INTER_OP_NUM_THREADS as INTER
from ortune.catalogue.named import SPIN_DURATION_US as SPIN_US
from ortune.records import Plan


def spins(plan: Plan) -> bool:
    """Return whether the plan has threads that keep spinning after a run; settings unknown here are ignored."""
    settings = plan.settings
    if settings.get(STOP.name):
        return False
    inter = settings.get(MODE.name) == "parallel" and settings.get(INTER.name) != 1
    if inter and settings.get(INTER_SPIN.name, True):
        return True
    # The caller is one of the threads, so a pool of one has no other.
    pools = [name for name, knob in knobs.all_knobs().items() if knob.threads == "intra"]
    alone = any(settings.get(name) == 1 for name in pools)
    return not alone and bool(settings.get(SPIN.name, True)) and settings.get(SPIN_US.name) != 0
