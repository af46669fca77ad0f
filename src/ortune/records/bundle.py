"""What a bundle says of itself."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.comparison import Comparison
from ortune.records.convert import ConvertedFrom
from ortune.records.machine import Host
from ortune.records.plan import Calibration, Plan
from ortune.records.protocol import Applied


class BundleInfo(Record, frozen=True, kw_only=True):
    """``ortune.json`` of a bundle.

    Attributes:
        model: The model's place within the bundle, mostly its file name; ``sha256`` is its identity.
        plain_model: The untouched model beside a rewritten one, "" where ``model`` is the plain one.
        hardware_bound: The model holds what was optimised for this CPU and this build of ONNX Runtime; elsewhere
            ``plain_model`` is to be used. A bundle that is not bound runs ``model`` everywhere.
        model_settings: Names of the settings that belong to a hardware-bound model: the plain one runs without.
        applied: The plan's settings with their channels, for who reads it; what is loaded follows from ``plan``.
            A thread count is text, ``min(4, cpus)``, here as in ``plan``: the 4 that were measured, and at most one
            for each CPU where there are fewer than ``host.effective_cpus``.
        ort_version: ONNX Runtime that it was tuned with.
        fallback: Of a bundle for pages: the plan on WebAssembly for a device that cannot run ``plan``, measured in the
            same session; without rewrites it runs ``plain_model`` where there is one.
        calibration: What the model's ranges were taken from, where it is a quantized one.
        requirements: What must be installed to run it, where that is not the user's own ONNX Runtime.
        source: What the model was converted from by ``ortune convert``; None where the model does not say.
        session: Id of the stored session that made it, which begins with its date; "" where none was stored.
    """

    schema: str
    model: str
    sha256: str
    plan: Plan
    fallback: Plan | None = None
    plain_model: str = ""
    hardware_bound: bool = False
    model_settings: tuple[str, ...] = ()
    host: Host | None = None
    proof: Comparison | None = None
    applied: tuple[Applied, ...] = ()
    ort_version: str = ""
    session: str = ""
    requirements: tuple[str, ...] = ()
    calibration: Calibration | None = None
    source: ConvertedFrom | None = None
