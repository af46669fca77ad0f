"""The document of a first look."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.finding import Finding
from ortune.records.machine import Runtime
from ortune.records.model import ModelInfo
from ortune.records.ort_format import OrtFile
from ortune.records.plan import Plan
from ortune.records.profile import Headroom, OperatorTime
from ortune.records.protocol import Placement


class LookFact(Record, frozen=True, kw_only=True):
    """A finding in the words that documents had before findings had codes.

    Attributes:
        name: The rule's ("dominant-node", "control-flow", ...).
        what: One sentence.
        where: Nodes, inputs or tensors by name.
        do: What may be done about it, "" where nothing need be.
    """

    name: str
    what: str
    where: tuple[str, ...] = ()
    do: str = ""


class NodeTime(Record, frozen=True, kw_only=True):
    """One node in a profile; the name is that of the optimised graph.

    Attributes:
        originals: Nodes of the user's model that it stands for; () where not known, or inserted.
        purpose: What a node that the optimiser inserted is for, "" for all others.
    """

    name: str
    op_type: str
    provider: str = ""
    time_ns: float
    share_ratio: float
    originals: tuple[str, ...] = ()
    purpose: str = ""


class OperatorProfile(Record, frozen=True, kw_only=True):
    """Where the time of a run goes, from one profiled process.

    Attributes:
        n_runs: Profiled runs that count.
        run_ns: The typical run while profiling.
        slowdown_ratio: That run against the one of the process that was not profiled; above 1 is slower. Two
            processes, so a few percent mean nothing.
        operators: All of them, the dearest first.
        nodes: The dearest few.
        complete: False where the profile was cut off and read as far as it goes.
    """

    n_runs: int
    run_ns: float
    slowdown_ratio: float | None = None
    operators: tuple[OperatorTime, ...] = ()
    nodes: tuple[NodeTime, ...] = ()
    complete: bool = True


class LookTiming(Record, frozen=True, kw_only=True):
    """One process with the default settings, or those asked for: a single observation, no interval.

    Attributes:
        latency_ns: Median over the runs (the weighted mean over several shapes); the first run where ``n_runs`` is 0.
        warmed_up: The runs came after a warm-up; without, the time allowed no more.
        flops_per_s: Floating-point operations of the model over that latency; None where they are not known.
        peak_bytes: Largest resident memory of the process, interpreter included.
        placement: Which nodes each execution provider has; empty for the CPU's alone, and where it is not told.
    """

    latency_ns: float
    n_runs: int
    warmed_up: bool = True
    first_run_ns: float
    load_ns: float
    peak_bytes: int | None = None
    flops_per_s: float | None = None
    placement: tuple[Placement, ...] = ()


class RepeatedRegion(Record, frozen=True, kw_only=True):
    """Stretches of nodes that compute the same from other weights, one right after the other: equal layers, or steps.

    Attributes:
        copies: How many there are.
        n_nodes: Of one copy.
        first: Name of the first node of the first copy.
        operators: Nodes of all copies by operator, the most frequent first.
        share_ratio: Of the run that all copies together have; None where that is not known.
        share_from: Where that is from: "profile" (a run that was measured) or "cost" (an estimate from the operations
            of the nodes).
    """

    copies: int
    n_nodes: int
    first: str = ""
    operators: dict[str, int] = {}
    share_ratio: float | None = None
    share_from: Literal["profile", "cost"] = "profile"


class LookResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune MODEL --json``. What needs a run is None where the model does not run here.

    Attributes:
        parameters: Elements of all initializers and constant tensors; ``parameter_bytes`` as they are stored.
        weight_types: Bytes of the parameters by element type, the largest first.
        operators: Nodes of the file by operator, the most frequent first, bodies and functions included.
        flops: Floating-point operations of one run at the chosen shapes; None where they are not known.
        flops_complete: Every node was counted; otherwise ``flops`` is a lower bound.
        flops_note: What the figure leaves out or rests on.
        regions: Layers or steps that come again and again, those with the largest share first.
        headroom: What settings could win at most, from the profile.
        findings: What stands out, the weightiest first; () in older documents.
        facts: The same as in older documents.
        left_out: What the time did not allow, in sentences.
        busy: That the CPUs were wanted by others meanwhile, in words; "" where they were not, or nothing tells.
        next_commands: What to type next, the best first.
        ort_file: What a file in ORT format was made for; None for an .onnx.
    """

    model: ModelInfo
    parameters: int
    parameter_bytes: int
    weight_types: dict[str, int] = {}
    operators: dict[str, int] = {}
    flops: float | None = None
    flops_complete: bool = True
    flops_note: str = ""
    inputs: str = ""
    runtime: Runtime | None = None
    plan: Plan = Plan()
    timing: LookTiming | None = None
    profile: OperatorProfile | None = None
    regions: tuple[RepeatedRegion, ...] = ()
    headroom: Headroom | None = None
    findings: tuple[Finding, ...] = ()
    facts: tuple[LookFact, ...] = ()
    left_out: tuple[str, ...] = ()
    next_commands: tuple[str, ...] = ()
    busy: str = ""
    session: str = ""
    elapsed_s: float = 0.0
    ort_file: OrtFile | None = None
