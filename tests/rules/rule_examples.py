"""For every rule what it must find, where, and what it must be silent on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ortune.model.open import open_model
from ortune.platform import Snapshot, Topology
from ortune.platform.cgroup import Throttling
from ortune.records import (
    BenchRow,
    Case,
    CaseTimes,
    Category,
    CategoryName,
    Estimate,
    Host,
    InputChoice,
    LevelCheck,
    NodeTime,
    NonFiniteOutput,
    OperatorProfile,
    OperatorTime,
    OutputDifference,
    PageSeen,
    Plan,
    ProfiledNode,
    ProfileResult,
    ProviderReport,
    ProviderSpec,
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


@dataclass(frozen=True, kw_only=True)
class Example:
    """What a rule is tried on.

    Attributes:
        bad: What it fires on, made in a folder.
        where: What it marks there.
        good: What it is silent on, with as much known.
    """

    bad: Callable[[Path], Facts]
    where: tuple[str, ...] = ()
    good: Callable[[Path], Facts]


def weight(name: str = "w", fill: float = 0.5, dtype: type = np.float32, size: int = 96) -> onnx.TensorProto:
    """A square matrix of one value."""
    return numpy_helper.from_array(np.full((size, size), fill, dtype=dtype), name)


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
    graph = helper.make_graph(
        list(nodes), "g", list(inputs) or [info("x", FLOAT, [8, 96])], [info("y", FLOAT, None)], list(weights)
    )
    opsets = [
        helper.make_opsetid("", opset),
        helper.make_opsetid("com.microsoft.nchwc", 1),
    ]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(
        model, path, save_as_external_data=external, location="m.data" if external else None, size_threshold=0
    )
    return Facts(model=open_model(path), **known)


PRODUCT = node("MatMul", ["x", "w"], ["y"], name="product")


def plain(folder: Path, **options: Any) -> Facts:
    """A model with nothing wrong in it."""
    return facts_of(folder, [PRODUCT], [weight()], **options)


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
    return facts_of(folder, SIGNED, [weight("q", fill, np.int8), zero, *SCALE], host=host)


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
    return facts_of(folder, nodes, [weight(), weight("v", 0.25)], plan=Plan(settings=settings))


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
                NodeTime(name=f"the {op}", op_type=op, time_ns=s, share_ratio=s) for op, s in shares.items()
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
    return Facts(sensors=Snapshot(**known))


def stopped(periods: int) -> tuple[Throttling, ...]:
    return (Throttling(group="/app", nr_periods=1000, nr_throttled=periods, throttled_us=9),)


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


EXAMPLES = {
    "ENV001": Example(
        bad=lambda _: runtime(overlapping={"onnxruntime": "1.31.1", "onnxruntime-gpu": "1.30.0"}),
        where=("/venv/bin/python",),
        good=lambda _: runtime(),
    ),
    "ENV002": Example(
        bad=lambda _: sensed(governor="powersave"), good=lambda _: sensed(governor="performance")
    ),
    "ENV003": Example(bad=lambda _: sensed(swap_bytes=3 << 30), good=lambda _: sensed(swap_bytes=1 << 20)),
    "ENV004": Example(bad=lambda _: Facts(host=OLD_HOST), where=("Box",), good=lambda _: Facts(host=HOST)),
    "ENV005": Example(
        bad=lambda _: Facts(host=HOST, environment={"OMP_NUM_THREADS": "2"}),
        where=("OMP_NUM_THREADS",),
        good=lambda _: Facts(environment={"OMP_NUM_THREADS": "2", "ORT_INTRA_OP_NUM_THREADS": "2"}),
    ),
    "ENV006": Example(
        bad=lambda _: runtime(providers=cuda(usable=False)),
        where=("/venv/bin/python",),
        good=lambda _: runtime(providers=cuda(usable=True)),
    ),
    "ENV007": Example(
        bad=lambda _: Facts(host=HOST, topology=Topology(efficiency_cpus=(8, 9), note="two are slower")),
        where=("Box",),
        good=lambda _: Facts(host=HOST),
    ),
    "ENV008": Example(
        bad=lambda _: Facts(topology=Topology(numa_nodes=((0, 1), (2, 3)))),
        good=lambda _: Facts(topology=Topology(numa_nodes=((0, 1),))),
    ),
    "ENV009": Example(
        bad=lambda _: sensed(throttling=stopped(400)), good=lambda _: sensed(throttling=stopped(2))
    ),
    "GRA001": Example(
        bad=lambda _: operators(Conv=0.7, Relu=0.3),
        where=("the Conv",),
        good=lambda _: operators(Conv=0.2, Relu=0.2),
    ),
    "GRA002": Example(
        bad=lambda folder: plain(folder, inputs=[info("x", FLOAT, [8, 96]), info("w", FLOAT, [96, 96])]),
        where=("w",),
        good=plain,
    ),
    "GRA003": Example(
        bad=lambda folder: facts_of(
            folder, branches(), inputs=[info("x", FLOAT, [8, 96]), info("yes", TensorProto.BOOL, [])]
        ),
        where=("choice",),
        good=lambda folder: facts_of(folder, branches(), [YES]),
    ),
    "GRA004": Example(bad=lambda folder: plain(folder, opset=11), good=plain),
    "GRA005": Example(
        bad=lambda _: profile(ran("a", 0.8), between_nodes=0.2), good=lambda _: profile(between_nodes=0.1)
    ),
    "GRA006": Example(
        bad=lambda _: profile(ran("slow", floor_ns=1e4, bound="compute"), ran("fine", floor_ns=5e4)),
        where=("slow",),
        good=lambda _: profile(ran("short", floor_ns=1e4, bound="overhead")),
    ),
    "SHP001": Example(
        bad=lambda folder: plain(folder, work=fed(0), inputs=[info("x", FLOAT, ["rows", 96])]),
        where=("rows",),
        good=lambda folder: plain(folder, work=fed()),
    ),
    "SHP002": Example(
        bad=lambda _: profile(
            ran("reshape", category="shape-arithmetic"), ran("conv", 0.9), shape_arithmetic=0.1
        ),
        where=("reshape",),
        good=lambda _: profile(shape_arithmetic=0.01),
    ),
    "QNT001": Example(
        bad=lambda folder: facts_of(folder, QUANTIZE, host=OLD_HOST), where=("quantize", "back"), good=plain
    ),
    "PRC001": Example(
        bad=lambda folder: facts_of(folder, CASTS, [weight(dtype=np.float16)]), where=("w",), good=plain
    ),
    "PRC002": Example(
        bad=lambda folder: facts_of(
            folder,
            [node("Cast", ["x"], ["d"], to=DOUBLE, name="widen"), node("Cast", ["d"], ["y"], to=FLOAT)],
        ),
        where=("widen",),
        good=lambda folder: facts_of(folder, CASTS, [weight(dtype=np.float16)]),
    ),
    "LAY001": Example(
        bad=lambda _: operators(Conv=0.2, Cast=0.2), good=lambda _: operators(Conv=0.2, Cast=0.05)
    ),
    "LAY002": Example(
        bad=lambda _: profile(ran("cast", category="casts-and-layout"), ran("conv"), casts_and_layout=0.1),
        where=("cast",),
        good=lambda _: profile(casts_and_layout=0.01),
    ),
    "LAY007": Example(
        bad=lambda _: profile(*reordered(2), ran("conv")),
        where=("in 0", "out 0", "in 1", "out 1"),
        good=lambda _: profile(*reordered(1), ran("conv")),
    ),
    "LAY003": Example(bad=lambda folder: facts_of(folder, [BLOCKED]), where=("reorder",), good=plain),
    "LAY004": Example(
        bad=lambda _: profile(ran("odd", remark="17 output channels are padded to 32"), ran("even")),
        where=("odd",),
        good=lambda _: profile(ran("small", 0.01, remark="17 output channels are padded to 32")),
    ),
    "PLC001": Example(bad=lambda _: profile(device_idle=0.2), good=lambda _: profile(device_idle=0.1)),
    "PLC002": Example(bad=lambda _: profile(device_wait=0.2), good=lambda _: profile(device_wait=0.05)),
    "PLC003": Example(
        bad=lambda _: profile(ran("copy", category="device-copies"), ran("conv"), device_copies=0.1),
        where=("copy",),
        good=lambda _: profile(device_copies=0.01),
    ),
    "THR001": Example(bad=lambda _: Facts(host=OLD_HOST), good=lambda _: Facts(host=HOST)),
    "THR002": Example(
        bad=lambda _: profile(ran("conv", wait_ns=2e5), ran("relu"), thread_wait=0.2),
        where=("conv",),
        good=lambda _: profile(ran("conv", wait_ns=1e3), thread_wait=0.05),
    ),
    "WEB003": Example(
        bad=lambda folder: in_ort_format(folder, target="web-webgpu"),
        good=lambda folder: in_ort_format(folder, target="web-wasm"),
    ),
    "WEB008": Example(
        bad=lambda folder: near_two_gib(folder, 5 << 30, "web-wasm"),
        good=lambda folder: near_two_gib(folder, 5 << 30),
    ),
    "WEB009": Example(
        bad=lambda folder: in_a_page(
            folder, "webgpu", web_build="asyncify", web_graph_capture=True, web_provider_form="string"
        ),
        good=lambda folder: in_a_page(folder, "webgpu", web_graph_capture=True, web_provider_form="string"),
    ),
    "WEB010": Example(
        bad=lambda folder: in_a_page(folder, "webgpu", web_build="asyncify", web_profiling="default"),
        good=lambda folder: in_a_page(folder, "webgpu", web_build="jsep", web_profiling="default"),
    ),
    "WEB011": Example(
        bad=lambda folder: in_a_page(folder, "wasm", web_threads=4, web_isolation=False),
        good=lambda folder: in_a_page(folder, "wasm", web_threads=4),
    ),
    "WEB012": Example(
        bad=lambda folder: in_a_page(folder, "webgpu", "wasm"),
        good=lambda folder: in_a_page(folder, "webgpu"),
    ),
    "WEB013": Example(
        bad=lambda folder: in_a_page(folder, "wasm", web_proxy=True),
        good=lambda folder: in_a_page(folder, "wasm", web_proxy=False),
    ),
    "WEB014": Example(
        bad=lambda folder: in_a_page(folder, "webgpu", web_build="jsep"),
        good=lambda folder: in_a_page(folder, "webgpu", web_build="asyncify"),
    ),
    "WEB015": Example(
        bad=lambda folder: in_a_page(folder, "wasm", web_build="jspi"),
        good=lambda folder: in_a_page(folder, "wasm", web_build="wasm"),
    ),
    "WEB016": Example(
        bad=lambda folder: dequantized(folder, "jsep"),
        where=("wide",),
        good=lambda folder: dequantized(folder, "asyncify"),
    ),
    "MEM001": Example(
        bad=lambda folder: facts_of(folder, TWICE, [weight(size=192), weight("v", size=192)]),
        where=("v",),
        good=lambda folder: facts_of(folder, TWICE, [weight(size=192), weight("v", 0.25, size=192)]),
    ),
    "SES001": Example(bad=lambda folder: plain(folder, external=True), where=("m.data",), good=plain),
    "SES002": Example(
        bad=lambda folder: set_to(folder, graph_optimization_level="basic"),
        good=lambda folder: set_to(folder, graph_optimization_level="all"),
    ),
    "SES004": Example(
        bad=lambda folder: near_two_gib(folder, 2_000_000_000),
        good=lambda folder: near_two_gib(folder, 1 << 30),
    ),
    "THR003": Example(
        bad=lambda folder: set_to(folder, inter_op_num_threads=8),
        good=lambda folder: set_to(folder, inter_op_num_threads=8, execution_mode="parallel"),
    ),
    "THR004": Example(
        bad=lambda folder: set_to(folder, execution_mode="parallel"),
        good=lambda folder: side_by_side(folder, execution_mode="parallel"),
    ),
    "THR005": Example(
        bad=lambda folder: on_a_gpu(folder, "cuda"),
        good=lambda folder: on_a_gpu(folder, "cuda", settings={"allow_spinning": False}),
    ),
    "THR006": Example(
        bad=lambda _: unequal(2.0, ran("conv", imbalance_ns=1e5), ran("relu")),
        where=("conv",),
        good=lambda _: unequal(1.1, ran("conv", imbalance_ns=1e5), ran("relu")),
    ),
    "CUD002": Example(
        bad=lambda folder: on_a_gpu(folder, "tensorrt"),
        good=lambda folder: on_a_gpu(folder, "tensorrt", trt_engine_cache_enable="1"),
    ),
    "QNT009": Example(
        bad=lambda folder: signed(folder, 90), where=("product",), good=lambda folder: signed(folder, 60)
    ),
    "PLC005": Example(
        bad=lambda _: profile(
            ran("first", provider=GPU),
            ran("down", category="device-copies", reads=("first_optimised",)),
            ran("island", provider=CPU, reads=("down_optimised",)),
            ran("last", provider=GPU, reads=("island_optimised",)),
        ),
        where=("island",),
        good=lambda _: profile(
            ran("first", provider=GPU), ran("end", provider=CPU, reads=("first_optimised",))
        ),
    ),
    "PLC006": Example(
        bad=lambda _: replace(profile(ran("all", provider=CPU)), plan=ON_A_DEVICE),
        good=lambda _: replace(profile(ran("all", provider=CPU), ran("one", provider=GPU)), plan=ON_A_DEVICE),
    ),
    "PLC007": Example(bad=lambda _: queued(computing=0.1), good=lambda _: queued(computing=0.9)),
    "PLC004": Example(
        bad=lambda folder: capturing(folder, "rows"), where=("x",), good=lambda folder: capturing(folder, 8)
    ),
    "QNT007": Example(
        bad=lambda folder: facts_of(folder, PAIR, SCALE, plan=Plan(settings={"disable_quant_qdq": True})),
        where=("wide",),
        good=lambda folder: facts_of(folder, PAIR, SCALE),
    ),
    "MSR001": Example(
        bad=lambda folder: facts_of(folder, NON_ZERO, work=work()),
        where=("found",),
        good=lambda folder: facts_of(folder, NON_ZERO, work=work(inputs_path="samples")),
    ),
    "MSR002": Example(
        bad=lambda folder: facts_of(folder, [node("RandomNormalLike", ["x"], ["y"], name="noise")]),
        where=("noise",),
        good=plain,
    ),
    "MSR003": Example(
        bad=lambda _: steady(*np.linspace(1e6, 1.2e6, 30)),
        good=lambda _: steady(*np.linspace(1e6, 1.01e6, 30)),
    ),
    "MSR004": Example(bad=lambda _: profile(unexplained=0.1), good=lambda _: profile(unexplained=0.01)),
    "MSR005": Example(
        bad=lambda _: profile(ran("over", floor_ns=9e5), ran("under", floor_ns=5e4)),
        where=("over",),
        good=lambda _: profile(ran("under", floor_ns=5e4)),
    ),
    "MSR006": Example(
        bad=lambda _: Facts(
            page=PageSeen(browser="Chromium 156", isolated=True, adapter="swiftshader", software=True)
        ),
        good=lambda _: Facts(page=PageSeen(browser="Chromium 156", isolated=True, adapter="a GPU")),
    ),
    "MSR011": Example(
        bad=lambda _: Facts(page=PageSeen(browser="Chromium 156", isolated=True, visible=False)),
        good=lambda _: Facts(page=PageSeen(browser="Chromium 156", isolated=True)),
    ),
    "MSR012": Example(
        bad=lambda _: Facts(level_check=level_check(wrong=True)),
        where=("fc",),
        good=lambda _: Facts(level_check=level_check(wrong=False)),
    ),
    "MSR013": Example(
        bad=lambda _: Facts(
            nonfinite=[NonFiniteOutput(name="y", n_elements=8, nonfinite_reference=8, unusable_reference=8)]
        ),
        good=lambda _: Facts(nonfinite=[NonFiniteOutput(name="y", n_elements=8, nonfinite_reference=3)]),
    ),
    "WEB018": Example(
        bad=lambda _: Facts(native=OutputDifference(ok=False, relative_l2=0.2, what="y differs by 0.2")),
        good=lambda _: Facts(native=OutputDifference(ok=True)),
    ),
    "WEB019": Example(
        bad=lambda folder: watched_page("wasm", web_isolation=False),
        good=lambda folder: watched_page("wasm", web_isolation=True),
    ),
    "WEB020": Example(
        bad=lambda folder: replace(watched_page("wasm"), asked={"enableProfiling": "true"}),
        good=lambda folder: replace(watched_page("wasm"), asked={"enableProfiling": "false"}),
    ),
    "SHP008": Example(
        bad=lambda folder: at_two_lengths(folder, 1.0, 12.0),
        where=("scores", "mixed", "shares"),
        good=lambda folder: at_two_lengths(folder, 1.0, 4.1),
    ),
    "MSR010": Example(
        bad=lambda folder: facts_of(folder, NON_ZERO, kinds=[timed(*[1.0] * 9), timed(*[2.0] * 9)]),
        where=("found (NonZero)",),
        good=lambda folder: facts_of(folder, NON_ZERO, kinds=[timed(*[1.0] * 9), timed(*[1.1] * 9)]),
    ),
}
