"""What rules are asked about in tests: small models, profiles and machines that show one thing each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

from graphs import filled
from onnx_text import assemble
from ortune import rules
from ortune.graph.model.open import OpenModel, open_model
from ortune.platform import SensorSnapshot
from ortune.platform.cgroup import Throttling
from ortune.records import (
    BenchRow,
    Case,
    CaseTimes,
    Category,
    CategoryName,
    Estimate,
    ExactCheck,
    Finding,
    Host,
    InputChoice,
    LevelCheck,
    NodeTime,
    OperatorProfile,
    OperatorTime,
    OutputDifference,
    PageSeen,
    Plan,
    ProfiledNode,
    ProfileResult,
    ProviderReport,
    ProviderSpec,
    RoundingCause,
    RowCheck,
    RowDifference,
    Runtime,
    RuntimeReport,
    RunVariance,
    TraceInfo,
    Workload,
)
from ortune.rules import Facts

FLOAT, DOUBLE, INT64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64
node, info = helper.make_node, helper.make_tensor_value_info

HOST = Host(
    system="Linux", machine="x86_64", cpu="Box", cores=8, logical=16, affinity=16, effective_cpus=8,
    memory_bytes=1 << 34, features=("avx2", "avx512_vnni", "fma"),
)  # fmt: skip
OLD_HOST = Host(
    system="Linux", machine="x86_64", cpu="Box", cores=8, logical=16, affinity=2, effective_cpus=2,
    memory_bytes=1 << 34, features=("avx2", "fma"),
)  # fmt: skip


def facts_of(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto] = (),
    *,
    inputs: Sequence[onnx.ValueInfoProto] = (),
    opset: int = 17,
    external: bool = False,
    **known: Any,
) -> Facts:
    """A model from x (8x96, unless said) to y, opened."""
    path = folder / "m.onnx"
    model = assemble(
        list(nodes),
        list(inputs) or [info("x", FLOAT, [8, 96])],
        [info("y", FLOAT, None)],
        list(weights),
        opset=opset,
        opsets={"com.microsoft.nchwc": 1},
    )
    onnx.save(
        model, path, save_as_external_data=external, location="m.data" if external else None, size_threshold=0
    )
    return Facts(model=open_model(path), **known)


PRODUCT = node("MatMul", ["x", "w"], ["y"], name="product")


def plain(folder: Path, **options: Any) -> Facts:
    """A model with nothing wrong in it."""
    return facts_of(folder, [PRODUCT], [filled()], **options)


def plain_sum(folder: Path, opset: int) -> Facts:
    """A mean over axes that an attribute names, which opset 18 made an input."""
    return facts_of(folder, [node("ReduceMean", ["x"], ["y"], name="total", axes=[1])], opset=opset)


def work(*choices: InputChoice, **load: Any) -> Workload:
    return Workload(cases=(Case(name="all", inputs=choices),), **load)


def fed(*guessed_axes: int) -> Workload:
    return work(InputChoice(name="x", dtype="float", shape=(8, 96), guessed_axes=guessed_axes))


SCALE = [numpy_helper.from_array(np.float32(0.5), "s")]
SIGNED = [
    node("DequantizeLinear", ["q", "s"], ["wide"], name="weights"),
    node("QuantizeLinear", ["x", "s", "z"], ["n"]),
    node("DequantizeLinear", ["n", "s", "z"], ["d"]),
    node("MatMul", ["d", "wide"], ["y"], name="product"),
]
PAIR = [
    node("QuantizeLinear", ["x", "s"], ["q"], name="narrow"),
    node("DequantizeLinear", ["q", "s"], ["y"], name="wide"),
]


def signed(folder: Path, fill: int, host: Host = OLD_HOST) -> Facts:
    """A product of quantized values with weights of int8."""
    zero = numpy_helper.from_array(np.array(0, np.uint8), "z")
    return facts_of(folder, SIGNED, [filled("q", fill, np.int8), zero, *SCALE], host=host)


ATTENTION = [
    node("Transpose", ["x"], ["t"], perm=[0, 2, 1], name="turned"),
    node("MatMul", ["x", "t"], ["scores"], name="scores"),
    node("Softmax", ["scores"], ["shares"], name="shares"),
    node("MatMul", ["shares", "x"], ["y"], name="mixed"),
]


def at_two_lengths(folder: Path, *milliseconds: float) -> Facts:
    """Attention over 128 and 512 positions of 16 values, as a bench measured it."""
    cases = tuple(
        Case(
            name=f"seq={n}", inputs=(InputChoice(name="x", dtype="float", shape=(1, n, 16)),), dims={"seq": n}
        )
        for n in (128, 512)
    )
    rows = [bench_row(case.name, 1e6 * ms) for case, ms in zip(cases, milliseconds, strict=True)]
    inputs = [info("x", FLOAT, [1, "seq", 16])]
    return facts_of(folder, ATTENTION, inputs=inputs, work=Workload(cases=cases), rows=rows)


def bench_row(case: str, median_ns: float) -> BenchRow:
    """Three processes whose medians lie within two per cent."""
    latency = Estimate(value=median_ns, low=0.99 * median_ns, high=1.01 * median_ns, level=0.95)
    other = Estimate(value=1.0, single=True)
    return BenchRow(
        case=case, n_processes=3, n_requests=150, median_ns=latency, tails=(), throughput_per_s=other,
        load_ns=other, first_run_ns=other, cpu_per_run_ns=other,
    )  # fmt: skip


def on_a_gpu(
    folder: Path, target: str, *, settings: Mapping[str, Any] | None = None, **options: str
) -> Facts:
    """A plain model on a GPU, with options of its provider."""
    names = {"cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}
    provider = ProviderSpec(name=names[target], options=options)
    return plain(folder, plan=Plan(providers=(provider,), settings=dict(settings or {})), target=target)


def in_a_page(folder: Path, *providers: str, **settings: Any) -> Facts:
    """A plain model with settings of onnxruntime-web."""
    chain = tuple(ProviderSpec(name=name) for name in providers)
    return plain(folder, plan=Plan(settings=settings, providers=chain), target=f"web-{providers[0]}")


def watched_page(*providers: str, **settings: Any) -> Facts:
    """What a page with eight processors asked for."""
    chain = tuple(ProviderSpec(name=name) for name in providers)
    seen = PageSeen(browser="Chromium", isolated=bool(settings.get("web_isolation")), cpus=8)
    asked = {"graphOptimizationLevel": "all"}
    return Facts(
        plan=Plan(settings=settings, providers=chain), page=seen, asked=asked, target=f"web-{providers[0]}"
    )


def dequantized(folder: Path, build: str) -> Facts:
    """A pair of QuantizeLinear and DequantizeLinear in a page."""
    plan = Plan(settings={"web_build": build}, providers=(ProviderSpec(name="webgpu"),))
    return facts_of(folder, PAIR, SCALE, plan=plan, target="web-webgpu")


def in_ort_format(folder: Path, target: str) -> Facts:
    """A plain model that came in ORT format."""
    facts = plain(folder, target=target)
    assert facts.model is not None
    told = msgspec.structs.replace(facts.model.facts, format="ort")
    return replace(facts, model=replace(facts.model, facts=told))


def near_two_gib(folder: Path, size_bytes: int, target: str = "cpu") -> Facts:
    """A plain model whose file would be so large."""
    facts = plain(folder, target=target)
    assert facts.model is not None
    told = msgspec.structs.replace(facts.model.facts, size_bytes=size_bytes)
    return replace(facts, model=replace(facts.model, facts=told))


def capturing(folder: Path, rows: int | str) -> Facts:
    """A model of so many rows, where graphs are captured."""
    capture = ProviderSpec(name="CUDAExecutionProvider", options={"enable_cuda_graph": "1"})
    plan = Plan(providers=(capture,))
    return plain(folder, inputs=[info("x", FLOAT, [rows, 96])], plan=plan)


def side_by_side(folder: Path, **settings: Any) -> Facts:
    """Two products that do not wait for each other."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("MatMul", ["x", "v"], ["b"]),
        node("Add", ["a", "b"], ["y"]),
    ]
    return facts_of(folder, nodes, [filled(), filled("v", 0.25)], plan=Plan(settings=settings))


def set_to(folder: Path, **settings: Any) -> Facts:
    """A plain model with settings."""
    return plain(folder, plan=Plan(settings=settings))


def operators(**shares: float) -> Facts:
    """The profile of a first look, two nodes of one operator each."""
    return Facts(
        operators=OperatorProfile(
            n_runs=3,
            run_ns=1.0,
            operators=tuple(
                OperatorTime(op_type=op, n_nodes=1, time_ns=s, share_ratio=s) for op, s in shares.items()
            ),
            nodes=tuple(
                NodeTime(name=f"{op.lower()}_0", op_type=op, time_ns=s, share_ratio=s)
                for op, s in shares.items()
            ),
        )
    )


def profile(*nodes: ProfiledNode, variance: RunVariance | None = None, **shares: float) -> Facts:
    """A profiled run of 1 ms; what categories do not say is in kernels."""
    found = {name.replace("_", "-"): share for name, share in shares.items()}
    found["kernels"] = 1 - sum(found.values())
    return Facts(
        profile=ProfileResult(
            trace=TraceInfo(path="", format="ort-json", n_events=0, n_runs=1),
            n_runs=1,
            wall_ns=1e6,
            categories=tuple(
                Category(name=name, ns=1e6 * found.get(name, 0.0)) for name in get_args(CategoryName)
            ),
            nodes=nodes,
            variance=variance,
        )
    )


def ran(name: str, share: float = 0.1, **known: Any) -> ProfiledNode:
    return ProfiledNode(
        name=f"{name}_optimised",
        originals=(name,),
        op_type="Conv",
        time_ns=1e6 * share,
        share_ratio=share,
        **known,
    )


def reordered(times: int) -> list[ProfiledNode]:
    """Into the blocked layout and out of it, so many times."""
    both = (
        [(f"in {i}", "ReorderInput") for i in range(times)],
        [(f"out {i}", "ReorderOutput") for i in range(times)],
    )
    named = [each for pair in zip(*both, strict=True) for each in pair]
    return [
        msgspec.structs.replace(ran(name, 0.1), name=name, op_type=op, originals=()) for name, op in named
    ]


def steady(*runs_ns: float) -> Facts:
    return profile(ran("a"), variance=RunVariance(warmup_runs=0, runs_ns=runs_ns))


def unequal(spread: float, *nodes: ProfiledNode) -> Facts:
    return profile(*nodes, variance=RunVariance(warmup_runs=0, runs_ns=(), spread_ratio=spread))


def timed(*latencies_ms: float, shape: tuple[int, ...] = (8, 96)) -> CaseTimes:
    return CaseTimes(
        case="usual",
        weight=1.0,
        latency_ns=tuple(int(1e6 * ms) for ms in latencies_ms),
        first_ns=1,
        warmup_runs=1,
        output_shapes=(shape,),
    )


def runtime(**known: Any) -> Facts:
    return Facts(runtimes=[RuntimeReport(runtime=Runtime(python="/venv/bin/python"), **known)])


def cuda(*, usable: bool) -> tuple[ProviderReport, ...]:
    why = "" if usable else "libcudnn is missing"
    return (ProviderReport(name="CUDAExecutionProvider", in_build=True, usable=usable, why=why),)


def sensed(**known: Any) -> Facts:
    return Facts(sensors=SensorSnapshot(**known))


def stopped(periods: int) -> tuple[Throttling, ...]:
    return (Throttling(group="/app", nr_periods=1000, nr_throttled=periods, throttled_us=30_000 * periods),)


def branches() -> list[onnx.NodeProto]:
    branch = helper.make_graph([node("Neg", ["x"], ["n"], name="neg")], "b", [], [info("n", FLOAT, None)])
    return [node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch, name="choice")]


CPU, GPU = "CPUExecutionProvider", "WebGpuExecutionProvider"
ON_A_DEVICE = Plan(providers=(ProviderSpec(name=GPU),))
YES = numpy_helper.from_array(np.array(True), "yes")
BLOCKED = node("ReorderInput", ["x"], ["y"], name="reorder", domain="com.microsoft.nchwc", channels_last=0)
CASTS = [
    node("Cast", ["w"], ["f"], to=FLOAT, name="widen"),
    node("MatMul", ["x", "f"], ["y"], name="product"),
]
TWICE = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["a", "v"], ["y"])]
QUANTIZE = [
    node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"], name="quantize"),
    node("DequantizeLinear", ["q", "scale", "zero"], ["y"], name="back"),
]
NON_ZERO = [node("NonZero", ["x"], ["z"], name="found"), node("Cast", ["z"], ["y"], to=FLOAT)]


def queued(computing: float) -> Facts:
    """A profiled run on a device whose kernels take so much of it."""
    facts = profile(
        ran("a", 0.4, provider=GPU), ran("b", 0.4, provider=GPU), device_wait=0.1, between_nodes=0.1
    )
    assert facts.profile is not None
    busy = msgspec.structs.replace(facts.profile, device_ns={GPU: computing * facts.profile.wall_ns})
    return replace(facts, profile=busy)


def level_check(*, wrong: bool) -> LevelCheck:
    """Outputs that are 0.2 away, where rounding moves them by 0.01."""
    return LevelCheck(
        level="all",
        reference="disable",
        wrong=wrong,
        outputs=OutputDifference(ok=False, relative_l2=0.2),
        moved_relative_l2=0.01,
        right="basic",
        node="fc",
    )


def row_check(*, differs: bool) -> RowCheck:
    """One row that is 0.01 away from itself in a batch of two."""
    outputs = OutputDifference(ok=not differs, relative_l2=0.01 if differs else 0.0, cosine=0.999)
    return RowCheck(compared=(RowDifference(by="batch", size=2, alone=1, outputs=outputs, differs=differs),))


def rounded_level(cause: RoundingCause) -> LevelCheck:
    """Outputs that are 0.005 away, and the same without that cause."""
    outputs = OutputDifference(
        ok=True,
        relative_l2=0.005,
        cause=cause,
        without_cause_l2=2e-7,
        without_cause_by=("--set qdq_matmulnbits_accuracy_level=1",),
    )
    return LevelCheck(level="all", reference="disable", wrong=False, outputs=outputs, right="all")


def refuted(*, right: bool) -> ExactCheck:
    """Outputs that the model in float64 confirms, or from which it differs by 0.3."""
    outputs = OutputDifference(
        ok=right, relative_l2=0.0 if right else 0.3, accepting_tolerance=None if right else 0.5
    )
    return ExactCheck(right=right, outputs=outputs)


def findings_of(facts: Facts) -> dict[str, Finding]:
    """What all stable rules find, by the rule's name."""
    return {finding.name: finding for finding in rules.findings(facts)}


def opened(model: onnx.ModelProto, folder: Path) -> OpenModel:
    """The model, as it is read from a file."""
    onnx.save(model, folder / "m.onnx")
    return open_model(folder / "m.onnx")


def findings_in(model: onnx.ModelProto | str, code: str, folder: Path) -> list[Finding]:
    """What a rule finds in a model, or in its text."""
    proto = onnx.parser.parse_model(model) if isinstance(model, str) else model
    return rules.find_rule(code).findings(Facts(model=opened(proto, folder)))


def graph_text(
    body: str, *, x: str = "float[8,2] x", y: str = "float[8,2] y", weights: str = "", opset: int = 18
) -> str:
    """A model as ONNX text."""
    return f'<ir_version: 8, opset_import: ["" : {opset}]> g ({x}) => ({y}) {weights} {{ {body} }}'
