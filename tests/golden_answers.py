"""Results of look, of compare with several sides and of bench, made by hand."""

from __future__ import annotations

import msgspec

import golden
from ortune.records import (
    BenchRow,
    Envelope,
    ErrorInfo,
    Estimate,
    Failed,
    Finding,
    ModelInfo,
    ModelRef,
    OperatorProfile,
    OperatorTime,
    OutputDifference,
    ReadBack,
    TailEstimate,
)
from ortune.verbs.bench.result import BenchResult
from ortune.verbs.compare.result import ComparedSide
from ortune.verbs.look.result import LookResult, LookTiming

CPU = "CPUExecutionProvider"
OPERATORS = (
    ("Conv", 62, 28.2e6, 0.5),
    ("Add", 89, 5.85e6, 0.104),
    ("Mul", 86, 5.6e6, 0.1),
    ("Clip", 1, 80e3, 0.001),
)


def looked(error: ErrorInfo | None = None, **changes: object) -> Envelope:
    """A document of the first look; ``changes`` are fields of the LookResult."""
    usual = LookResult(
        model=ModelInfo(
            path="det.onnx",
            format="onnx",
            sha256="0" * 64,
            size_bytes=4_745_517,
            ir_version=8,
            opsets={"": 12, "com.microsoft": 1, "ai.onnx.ml": 3},
            producer="pytorch 2.1",
            n_nodes=672,
        ),
        parameters=1_170_000,
        parameter_bytes=4_680_000,
        weight_types={"float32": 4_000_000, "int8": 680_000},
        operators={
            "Constant": 342,
            "Add": 89,
            "Mul": 86,
            "Conv": 62,
            "Clip": 24,
            "Relu": 1,
            "com.microsoft.Gelu": 1,
        },
        flops=5.9e9,
        inputs="inputs: x 1x3x640x640 float (image; H, W guessed)",
        runtime=golden.RUNTIME,
        timing=LookTiming(
            latency_ns=59e6,
            n_runs=12,
            first_run_ns=90e6,
            load_ns=146e6,
            peak_bytes=186 << 20,
            flops_per_s=1e11,
        ),
        profile=OperatorProfile(
            n_runs=10,
            run_ns=62e6,
            slowdown_ratio=1.05,
            operators=tuple(
                OperatorTime(op_type=op, provider=CPU, n_nodes=n, time_ns=t, share_ratio=s)
                for op, n, t, s in OPERATORS
            ),
        ),
        findings=tuple(
            Finding(code=f"SHP{i:03}", what=f"finding {i} " + "of some length " * 4, fix="--dim seq=N")
            for i in range(7)
        ),
        next_commands=("ortune tune det.onnx", "ortune doctor"),
    )
    return Envelope(
        schema="ortune/look/2",
        ortune="0.1.0",
        model=ModelRef(path="det.onnx", sha256="0" * 64),
        status="error" if error else "ok",
        result=msgspec.structs.replace(usual, **changes),
        error=error,
    )


def several() -> Envelope:
    """C is the fastest and less exact, B equal, D another model's."""
    usual = golden.compared(gate=None).result
    inexact = OutputDifference(
        ok=False,
        relative_l2=0.004,
        max_error=0.01,
        cosine=0.99999,
        what="y differs",
        accepting_tolerance=0.005,
    )
    wrong = OutputDifference(ok=False, comparable=False, what="output 'y' has shape [3], not [4]")
    sides = (
        ComparedSide(
            name="C",
            side=golden.side("c.int8.onnx"),
            comparison=golden.comparison(ratio=0.55, ratio_low=0.54, ratio_high=0.57, level=0.975),
            outputs=inexact,
            figures=golden.figures(6e6),
        ),
        ComparedSide(
            name="B",
            side=golden.side("b.onnx"),
            comparison=golden.comparison(
                ratio=1.001, ratio_low=0.995, ratio_high=1.004, level=0.975, verdict="equivalent"
            ),
            outputs=OutputDifference(ok=True),
            figures=golden.figures(11e6),
        ),
        ComparedSide(name="D", side=golden.side("d.onnx"), outputs=wrong),
    )
    first = sides[0]
    return golden.compared(
        name="C", new=first.side, comparison=first.comparison, outputs=inexact, new_figures=first.figures,
        candidates=sides, gate=None, base=usual.base,
    )  # fmt: skip


def estimate(value: float, spread: float = 0.03) -> Estimate:
    return Estimate(value=value, low=value * (1 - spread), high=value * (1 + spread))


def row(case: str = "default", **changes: object) -> BenchRow:
    usual = BenchRow(
        case=case,
        n_processes=8,
        n_requests=864,
        median_ns=estimate(10.23e6),
        tails=(
            TailEstimate(quantile=0.1, latency_ns=estimate(9.9e6), needed=64, made=864),
            TailEstimate(quantile=0.95, latency_ns=Estimate(value=14e6, low=12.4e6), needed=130, made=864),
            TailEstimate(quantile=0.99, latency_ns=estimate(20e6), needed=662, made=864),
            TailEstimate(quantile=0.999, latency_ns=None, needed=6636, made=864),
        ),
        throughput_per_s=estimate(97.5),
        load_ns=estimate(220e6),
        first_run_ns=estimate(14e6),
        cpu_per_run_ns=estimate(40e6),
        peak_bytes=estimate(260 * 2**20),
        outputs=("logits 1x10", "best 1, indices"),
        mean_ns=estimate(10.9e6),
        min_ns=9.511e6,
        max_ns=31.26e6,
    )
    return msgspec.structs.replace(usual, **changes)


def document(*rows: BenchRow, status: str = "ok", **changes: object) -> Envelope:
    usual = BenchResult(
        side=golden.side("a.onnx", allow_spinning=False),
        rows=rows or (row(),),
        processes=(),
        load="one caller, back to back",
        read_back=(ReadBack(knob="allow_spinning", level="effect", ok=True, seen="idle CPU 0.01"),),
        findings=(Finding(code="MSR010", what="latency depends on the input", fix="give --inputs"),),
        notes=("a note",),
        remarks=("busy machine: tasks waited for a CPU 40 % of the time",),
        failures=(Failed(plan="0" * 12, reason="crash", what="killed by SIGSEGV"),),
        reproduce="ortune bench a.onnx --set spin=0",
    )
    result = msgspec.structs.replace(usual, **changes)
    return Envelope(schema="ortune/bench/1", ortune="0.1.0", host=golden.HOST, status=status, result=result)
