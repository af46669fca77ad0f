"""The configuration that a bundle ships, and its ``ortune.json``."""

from __future__ import annotations

from collections.abc import Mapping

from ortune.records.base import Record
from ortune.records.comparison import Comparison
from ortune.records.convert import ConvertedFrom
from ortune.records.machine import Adoption, Host, Runtime
from ortune.records.measure import Figures
from ortune.records.plan import Calibration, Plan
from ortune.records.protocol import Applied


class Delivery(Record, frozen=True, kw_only=True):
    """The configuration that a bundle ships, with its evidence; from the result of a tuning.

    Attributes:
        winner: The plan; empty if no change was confirmed.
        headline: The result in one or two sentences.
        runtime: The runtime of the winner; ``ort_version`` is its version of ONNX Runtime, or of onnxruntime-web in a
            browser.
        figures: Measured latency, memory and other metrics of the winner, or of the default if nothing changes.
        proof: The comparison that confirmed the winner.
        fallback: As in ``BundleInfo``.
        adoption: Packages that the winner needs; None if it runs in the user's own runtime.
        calibration: The calibration data, if the winner is a quantized model.
        hardware_bound: Whether the winner's rewrites are for this CPU and ONNX Runtime build.
        session: Id of the stored session; "" if it was not stored.
    """

    winner: Plan
    headline: str = ""
    runtime: Runtime
    ort_version: str
    figures: Figures
    proof: Comparison | None = None
    fallback: Plan | None = None
    adoption: Adoption | None = None
    calibration: Calibration | None = None
    hardware_bound: bool = False
    session: str = ""


class BundleInfo(Record, frozen=True, kw_only=True):
    """``ortune.json`` of a bundle.

    Attributes:
        model: Path of the model within the bundle; ``sha256`` identifies it.
        plain_model: Path of the original model, if ``model`` is rewritten; otherwise "".
        hardware_bound: Whether the model was optimised for this CPU and ONNX Runtime build. If so, ``plain_model`` is
            used elsewhere. Any other bundle runs ``model`` everywhere.
        model_settings: Settings that belong to a hardware-bound model; the original model runs without them.
        applied: The plan's settings with their channels, for information: loading uses ``plan``. A thread count is
            text, ``min(4, cpus)``, as in ``plan``: the measured 4, but at most one per CPU if there are fewer than
            ``host.effective_cpus``.
        instructions: Instruction sets by setting, such as ``openvino_precision=bf16``. The processor needs one of them
            to compute in that number type.
        ort_version: The ONNX Runtime version used for tuning.
        node: Whether the plan was measured in onnxruntime-node; ``ort_version`` is then its version.
        fallback: For browsers: the WebAssembly plan for devices that cannot run ``plan``, measured in the same session.
            Without rewrites it runs ``plain_model``, if that exists.
        calibration: The calibration data of a quantized model.
        requirements: Packages to install instead of the user's own ONNX Runtime.
        source: The source that ``ortune convert`` converted; None if the model does not record it.
        contains: Sentence on whether a gain was confirmed.
        session: Id of the stored session, which begins with its date; "" if it was not stored.
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
    instructions: Mapping[str, tuple[str, ...]] = {}
    ort_version: str = ""
    node: bool = False
    session: str = ""
    requirements: tuple[str, ...] = ()
    calibration: Calibration | None = None
    source: ConvertedFrom | None = None
    contains: str = ""
