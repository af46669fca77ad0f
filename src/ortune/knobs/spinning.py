"""Whether threads go on spinning when a run is over, which several settings decide together."""

from __future__ import annotations

from ortune import knobs
from ortune.knobs.cpu.allow_spinning import KNOB as SPIN
from ortune.knobs.cpu.execution_mode import KNOB as MODE
from ortune.knobs.cpu.force_spinning_stop import KNOB as STOP
from ortune.knobs.cpu.inter_op_allow_spinning import KNOB as INTER_SPIN
from ortune.knobs.cpu.inter_op_num_threads import KNOB as INTER
from ortune.knobs.cpu.spin_duration_us import KNOB as SPIN_US
from ortune.records import Plan


def spins(plan: Plan) -> bool:
    """Returns whether the plan has threads that spin on when a run is over; settings not known here do not count."""
    settings = plan.settings
    if settings.get(STOP.name):
        return False
    inter = settings.get(MODE.name) == "parallel" and settings.get(INTER.name) != 1
    if inter and settings.get(INTER_SPIN.name, True):
        return True
    # The caller is one of the threads: a pool of one has no other.
    pools = [name for name, knob in knobs.all_knobs().items() if knob.threads == "intra"]
    alone = any(settings.get(name) == 1 for name in pools)
    return not alone and bool(settings.get(SPIN.name, True)) and settings.get(SPIN_US.name) != 0
