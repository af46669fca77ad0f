"""Complete results of ``profile``, built by hand, for the tests of what is shown."""

from __future__ import annotations

import math
import random
import struct

import msgspec

import golden
from ortune.records import (
    Category,
    DifferenceRow,
    Envelope,
    Finding,
    Headroom,
    LayerTime,
    MachinePeak,
    MemoryOwner,
    MemoryPoint,
    MemoryProfile,
    ModelRef,
    NodeVariance,
    OperatorTime,
    ProfileDifference,
    ProfiledNode,
    ProfileResult,
    RunVariance,
    Timeline,
    TimelineTrack,
    TraceInfo,
)

CPU = "CPUExecutionProvider"
HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "[red]{{7*7}}|`",
    "a\u202eb\x1b[31m\n",
    "<!--/encoder/" + "very_long_name/" * 40 + "MatMul",
)
CATEGORIES = (
    ("kernels", 47.7e6),
    ("thread-wait", 5.13e6),
    ("device-copies", 0.0),
    ("device-wait", 0.0),
    ("casts-and-layout", 3.4e6),
    ("shape-arithmetic", 12e3),
    ("control-flow", 0.0),
    ("between-nodes", 1.9e6),
    ("device-idle", 0.0),
    ("outside-run", 305e3),
    ("unexplained", 453e3),
)
WALL = sum(ns for _, ns in CATEGORIES)


def nodes(count: int = 36) -> tuple[ProfiledNode, ...]:
    """Nodes of a transformer: products, a fused activation, casts; the dearest first, their sum within the run."""
    random.seed(5)
    found = []
    left = WALL - 2.7e6
    for number in range(count):
        ns = left * (0.18 if number < count - 1 else 1.0)
        left -= ns
        block, kind = number % 4, ("MatMul", "FusedConv", "Gelu", "Cast")[number % 4]
        layer = f"encoder/layer.{block}/attention" if kind != "Cast" else f"encoder/layer.{block}"
        flops = ns * (random.uniform(20, 80) if kind in ("MatMul", "FusedConv") else random.uniform(0.3, 6))
        floor = ns * random.uniform(0.3, 0.95)
        found.append(
            ProfiledNode(
                name=f"/{layer}/{kind}_{number}" if kind == "MatMul" else f"fused_{kind.lower()}_{number}",
                op_type=kind,
                provider=CPU,
                layer=layer,
                category="casts-and-layout" if kind == "Cast" else "kernels",
                time_ns=ns,
                wait_ns=ns * 0.12 if kind == "MatMul" else 0.0,
                share_ratio=ns / (WALL - 2.7e6),
                originals=(f"/{layer}/{kind}_{number}", f"/{layer}/Relu_{number}")[
                    : 2 if kind == "FusedConv" else 1
                ],
                flops=flops,
                bytes=flops / (random.uniform(8, 90) if kind in ("MatMul", "FusedConv") else 0.5),
                floor_ns=floor,
                bound="compute" if kind in ("MatMul", "FusedConv") else "memory",
                output_bytes=1 << 20,
                reads=tuple(each.name for each in found[-1:] + found[-4:-3]),
            )
        )
    return tuple(found)


def layers() -> tuple[LayerTime, ...]:
    """What ``nodes`` have as layers; one place around all, which says nothing."""
    found = [LayerTime(layer="encoder", depth=1, n_nodes=36, time_ns=56e6, share_ratio=1.0)]
    for block in range(4):
        ns = 56e6 * (0.4, 0.3, 0.2, 0.1)[block]
        name = f"encoder/layer.{block}"
        found.append(LayerTime(layer=name, depth=2, n_nodes=9, time_ns=ns, share_ratio=ns / 56e6))
        found.append(
            LayerTime(
                layer=f"{name}/attention", depth=3, n_nodes=7, time_ns=0.8 * ns, share_ratio=0.8 * ns / 56e6
            )
        )
    return tuple(found)


def usual() -> ProfileResult:
    """A model that ortune ran, with one of everything."""
    random.seed(7)
    runs = [
        90e6,
        66e6,
        *(WALL * math.exp(random.gauss(0, 0.02)) for _ in range(22)),
        WALL * 1.18,
        WALL * 1.21,
    ]
    found = nodes()
    in_use = [int(2**20 * (40 + 30 * math.sin(i / 5) + i)) for i in range(80)]
    return ProfileResult(
        trace=TraceInfo(path="/tmp/trace.json", format="ort-json", n_events=2000, n_runs=26),
        side=golden.side("encoder.onnx", intra_op_num_threads=2),
        n_runs=24,
        wall_ns=WALL,
        slowdown_ratio=1.08,
        categories=tuple(Category(name=name, ns=ns) for name, ns in CATEGORIES),
        operators=(
            OperatorTime(op_type="MatMul", provider=CPU, n_nodes=9, time_ns=30e6, share_ratio=0.53),
            OperatorTime(op_type="FusedConv", provider=CPU, n_nodes=9, time_ns=17e6, share_ratio=0.3),
            OperatorTime(op_type="Gelu", provider=CPU, n_nodes=9, time_ns=5.8e6, share_ratio=0.1),
            OperatorTime(op_type="Cast", provider=CPU, n_nodes=9, time_ns=3.4e6, share_ratio=0.07),
        ),
        nodes=found,
        layers=layers(),
        providers={CPU: 56.2e6},
        variance=RunVariance(
            warmup_runs=1,
            left_out_runs=2,
            runs_ns=tuple(runs),
            spread_ratio=1.11,
            slow_runs=2,
            usual_ns=WALL,
            extra_ns=0.18 * WALL,
            owners=(
                NodeVariance(name="/encoder/MatMul_3", op_type="MatMul", extra_ns=6e6, share_ratio=0.61),
                NodeVariance(name="between-nodes", extra_ns=2e6, share_ratio=0.21),
                NodeVariance(name="/encoder/Gelu_2", op_type="Gelu", extra_ns=0.1e6, share_ratio=0.01),
            ),
        ),
        memory=MemoryProfile(
            source="profile",
            peak_bytes=max(in_use),
            peak_node="/encoder/layer.3/attention/MatMul_32",
            held_bytes=256 * 2**20,
            weights_bytes=90 * 2**20,
            at_peak=(("/encoder/layer.3/attention/scores", 48 * 2**20), ("hidden", 512)),
            owners=(
                MemoryOwner(kind="weights", bytes=90 * 2**20),
                MemoryOwner(kind="value", name="/encoder/layer.3/attention/scores", bytes=48 * 2**20),
                MemoryOwner(kind="libraries", bytes=44 * 2**20),
                MemoryOwner(kind="values", bytes=2 * 2**20, count=12),
                MemoryOwner(kind="value", name="hidden", bytes=512),
            ),
            total_bytes=184 * 2**20 + 512,
            resident_bytes=180 * 2**20,
            points=tuple(
                MemoryPoint(node=f"node_{i}", in_use_bytes=n, held_bytes=256 * 2**20)
                for i, n in enumerate(in_use)
            ),
        ),
        peak=MachinePeak(
            cpu="A Processor",
            flops_per_s={1: 45e9, 2: 88e9},
            int8_ops_per_s={1: 150e9, 2: 290e9},
            bytes_per_s={1: 9e9, 2: 16e9},
            taken="2026-11-20T10:00:00Z",
        ),
        headroom=Headroom(
            settings_ratio=0.08,
            kernels_ratio=0.91,
            covered_ratio=0.97,
            sentence="settings can win at most 8 % (thread wait 5, overhead 3); the kernels run at 91 % of peak",
        ),
        unmapped=("fused_cast_35", "reorder_1", "reorder_2", "reorder_3"),
        stands_out=(
            Finding(code="", what="Cast takes 5.8 % of the run: the model mixes float16 and float32"),
        ),
        notes=("first shape only",),
        exports={"chrome": "/tmp/out.trace.json"},
        session="a1b2c3",
    )


def difference() -> ProfileDifference:
    """B is slower: one node took more, one vanished."""
    return ProfileDifference(
        a="encoder.onnx",
        b="encoder.ort",
        a_wall_ns=WALL,
        b_wall_ns=WALL + 3.2e6,
        low_ns=2.7e6,
        high_ns=3.7e6,
        a_processes=5,
        b_processes=5,
        categories=(
            DifferenceRow(
                name="kernels", a_ns=47.7e6, b_ns=50.6e6, difference_ns=2.9e6, low_ns=2.5e6, high_ns=3.3e6
            ),
            DifferenceRow(
                name="thread-wait", a_ns=5.13e6, b_ns=5.43e6, difference_ns=3e5, low_ns=-1e5, high_ns=7e5
            ),
        ),
        operators=(
            DifferenceRow(
                name="MatMul", a_ns=30e6, b_ns=33e6, difference_ns=3e6, low_ns=2.8e6, high_ns=3.2e6
            ),
            DifferenceRow(name="Cast", a_ns=3.4e6, b_ns=None, difference_ns=-3.4e6),
        ),
        nodes=(
            DifferenceRow(
                name="/encoder/layer.0/attention/with/a/very/long/name/that/goes/on/and/on/MatMul_0",
                op_type="MatMul",
                a_ns=10e6,
                b_ns=13e6,
                difference_ns=3e6,
                low_ns=2.8e6,
                high_ns=3.2e6,
                a_nodes=("x",),
                b_nodes=("x",),
                a_flops=2e8,
                b_flops=6e8,
            ),
            DifferenceRow(
                name="/encoder/Cast",
                op_type="Cast -> FusedCast",
                a_ns=3.4e6,
                difference_ns=-3.4e6,
                a_nodes=("c",),
            ),
            DifferenceRow(
                name="new",
                op_type="Gelu",
                b_ns=1e5,
                difference_ns=1e5,
                low_ns=-1e5,
                high_ns=3e5,
                b_flops=1.2e6,
            ),
        ),
        same_ns=-2e4,
        only_a=("c",),
        only_b=tuple(f"n{i}" for i in range(8)),
    )


def bare() -> ProfileResult:
    """A trace that tells next to nothing."""
    return ProfileResult(
        trace=TraceInfo(
            path="cut.json",
            format="ort-json",
            n_events=3,
            n_runs=0,
            complete=False,
            n_unreadable=1,
            missing=("no run was recorded completely",),
        ),
        n_runs=0,
        wall_ns=0.0,
        categories=tuple(Category(name=name, ns=0.0) for name, _ in CATEGORIES),
    )


def hostile(name: str) -> ProfileResult:
    """A name from a model wherever one may stand."""
    result = usual()
    replace = msgspec.structs.replace
    row = DifferenceRow(name=name, op_type=name, a_ns=1e6, b_ns=2e6, difference_ns=1e6, a_nodes=(name,))
    return replace(
        result,
        side=golden.side(name),
        nodes=tuple(
            replace(n, name=name, originals=(f"{name}x", name), op_type=name, layer=name, inside=name)
            for n in result.nodes
        ),
        operators=tuple(replace(o, op_type=name, provider=name) for o in result.operators),
        layers=tuple(replace(one, layer=f"{name}/{i}") for i, one in enumerate(result.layers)),
        providers={name: 3e7, CPU: 2e7},
        device_ns={name: 1e6},
        variance=replace(
            result.variance, owners=(NodeVariance(name=name, op_type="x", extra_ns=1e6, share_ratio=0.5),)
        ),
        memory=replace(
            result.memory,
            peak_node=name,
            at_peak=((name, 1 << 20),),
            points=tuple(replace(p, node=name) for p in result.memory.points),
        ),
        headroom=replace(result.headroom, sentence=name),
        unmapped=(name,) * 4,
        stands_out=(Finding(code="", what=name),),
        notes=(name,),
        trace=replace(result.trace, path=name, missing=(name,)),
        exports={"chrome": name},
        against=replace(
            difference(), a=name, b=name, sentence=name, categories=(row,), operators=(row,), nodes=(row,),
            only_a=(name,), only_b=(name,),
        ),
    )  # fmt: skip


def timeline(name: str = "/encoder/MatMul", n: int = 40) -> Timeline:
    """One run and its nodes on one thread, one of them in a body."""
    starts, durations, codes = [0, *range(0, 10 * n, 10), 12], [10 * n, *[8] * n, 3], [0, *[1] * n, 2]
    pack = lambda values: struct.pack(f"<{len(values)}I", *values)  # noqa: E731
    return Timeline(
        tick_ns=1000,
        start_ticks=pack(starts),
        duration_ticks=pack(durations),
        name_codes=pack(codes),
        names=("run 0", name, f"{name} inside"),
        op_types=("", "Loop", name),
        tracks=(
            TimelineTrack(lane="runs", depth=0, first=0, count=1),
            TimelineTrack(lane="thread 7", depth=0, first=1, count=n),
            TimelineTrack(lane="thread 7", depth=1, first=n + 1, count=1),
        ),
        n_left_out=3,
        note="the last run",
    )


def profiled(result: ProfileResult | None = None, **changes: object) -> Envelope:
    """A document of ``profile``; ``changes`` are fields of the usual ProfileResult."""
    found = result if result is not None else msgspec.structs.replace(usual(), **changes)
    return Envelope(
        schema="ortune/profile/1",
        ortune="0.1.0",
        host=golden.HOST,
        model=ModelRef(path="encoder.onnx", sha256="0" * 64),
        status="ok",
        result=found,
    )


KINDS = {
    "usual": profiled(),
    "difference": profiled(against=difference()),
    "bare": profiled(bare()),
    "plain-trace": profiled(
        side=None, slowdown_ratio=None, headroom=None, peak=None, memory=None, variance=None, layers=(), unmapped=(),
        nodes=tuple(
            msgspec.structs.replace(
                n, originals=(), flops=None, bytes=None, floor_ns=None, bound="", wait_ns=0.0, reads=()
            )
            for n in nodes()
        ),
    ),
    **{f"hostile-{n}": profiled(hostile(text)) for n, text in enumerate(HOSTILE)},
}  # fmt: skip
"""Documents of every kind, by a short name."""
