"""For every rule what it must find, where, and what it must be silent on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from onnx import TensorProto
from recording_examples import RECORDED
from rule_facts import (
    BLOCKED,
    CASTS,
    CPU,
    DOUBLE,
    FLOAT,
    GPU,
    HOST,
    NON_ZERO,
    OLD_HOST,
    ON_A_DEVICE,
    PAIR,
    QUANTIZE,
    SCALE,
    TWICE,
    YES,
    at_two_lengths,
    branches,
    capturing,
    cuda,
    dequantized,
    facts_of,
    fed,
    in_a_page,
    in_ort_format,
    info,
    level_check,
    near_two_gib,
    node,
    on_a_gpu,
    operators,
    plain,
    plain_sum,
    profile,
    queued,
    ran,
    refuted,
    reordered,
    rounded_level,
    row_check,
    runtime,
    sensed,
    set_to,
    side_by_side,
    signed,
    steady,
    stopped,
    timed,
    unequal,
    watched_page,
    work,
)

from graphs import filled
from ortune.catalogue.named import ALLOCATOR
from ortune.measuring.soak_experiments import SETTINGS
from ortune.platform import Topology
from ortune.records import (
    BrokenLevel,
    ClippedActivation,
    NonFiniteOutput,
    OutputDifference,
    PageOutput,
    PageSeen,
    Plan,
    SoakChange,
    SoakExperiment,
)
from ortune.rules import Facts


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


SOAKED: dict[str, SoakChange] = {
    "MEM004": "same-values",
    "MEM005": "no-arena",
    "MEM006": "no-pattern",
    "MEM007": "allocator",
    "MEM008": "one-thread",
    "MEM009": "kept-sessions",
    "MEM010": "no-prepacking",
}
"""Rules about the experiments of a soak, and the change that shows their cause."""


def soaked(change: SoakChange, *, flattens: bool) -> Facts:
    """A soak in which a change removes a rise, or does not."""
    setting = SETTINGS.get(change) or ((ALLOCATOR, "mimalloc") if change == "allocator" else None)
    plan = None if setting is None else Plan(settings={setting[0].name: setting[1]})
    kept = 1 << 20 if flattens else 50 << 20
    found = SoakExperiment(
        change=change,
        plan=plan,
        calls=3000,
        rise_bytes=kept,
        as_is_rise_bytes=50 << 20,
        explained=1 - kept / (50 << 20),
        flattens=flattens,
        latency_ratio=1.12,
        latency_low=1.10,
        latency_high=1.15,
    )
    return Facts(soak=[found])


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
        bad=lambda _: Facts(
            host=HOST,
            topology=Topology(
                efficiency_cpus=(8, 9),
                note="8 fast and 2 slower CPUs: threads on both wait for the slower ones",
            ),
        ),
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
        where=("conv_0",),
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
    "GRA031": Example(
        bad=lambda folder: plain_sum(folder, opset=18),
        where=("total",),
        good=lambda folder: plain_sum(folder, opset=17),
    ),
    "GRA005": Example(
        bad=lambda _: profile(ran("a", 0.8), between_nodes=0.2), good=lambda _: profile(between_nodes=0.1)
    ),
    "GRA006": Example(
        bad=lambda _: profile(ran("bad_conv", floor_ns=1e4, bound="compute"), ran("fine", floor_ns=5e4)),
        where=("bad_conv",),
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
        bad=lambda folder: facts_of(folder, CASTS, [filled(dtype=np.float16)]), where=("w",), good=plain
    ),
    "PRC002": Example(
        bad=lambda folder: facts_of(
            folder,
            [node("Cast", ["x"], ["d"], to=DOUBLE, name="widen"), node("Cast", ["d"], ["y"], to=FLOAT)],
        ),
        where=("widen",),
        good=lambda folder: facts_of(folder, CASTS, [filled(dtype=np.float16)]),
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
        bad=lambda _: profile(ran("bad_conv", remark="17 output channels are padded to 32"), ran("even")),
        where=("bad_conv",),
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
        bad=lambda folder: facts_of(folder, TWICE, [filled(size=192), filled("v", size=192)]),
        where=("v",),
        good=lambda folder: facts_of(folder, TWICE, [filled(size=192), filled("v", 0.25, size=192)]),
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
        bad=lambda _: profile(ran("bad_conv", floor_ns=9e5), ran("under", floor_ns=5e4)),
        where=("bad_conv",),
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
    "MSR014": Example(
        bad=lambda _: Facts(
            ort_version="1.32.0",
            broken_level=BrokenLevel(
                level="basic",
                right="disable",
                what="Type Error",
                node="R1_new_reshape",
                made_from=("R1", "R2"),
            ),
        ),
        where=("R1", "R2"),
        good=lambda _: Facts(ort_version="1.32.0"),
    ),
    "MSR015": Example(
        bad=lambda _: Facts(row_check=row_check(differs=True)),
        where=(),
        good=lambda _: Facts(row_check=row_check(differs=False)),
    ),
    "MSR016": Example(
        bad=lambda _: Facts(exact=refuted(right=False), ort_version="1.22.1"),
        good=lambda _: Facts(exact=refuted(right=True)),
    ),
    "MSR017": Example(
        bad=lambda _: Facts(level_check=rounded_level("int8-activations")),
        good=lambda _: Facts(level_check=rounded_level("")),
    ),
    "QNT019": Example(
        bad=lambda _: Facts(
            clipped=(
                ClippedActivation(side="A", name="h", low=-1.28, high=1.27, least=-3.0, most=7.1, share=0.69),
            )
        ),
        where=("h",),
        good=lambda _: Facts(),
    ),
    "MOB009": Example(
        bad=lambda folder: replace(set_to(folder, coreml_format="mlprogram"), target="coreml"),
        where=("product",),
        good=lambda folder: replace(plain(folder), target="coreml"),
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
    "WEB021": Example(
        bad=lambda _: Facts(on_gpu=[PageOutput(name="logits", made=60, disposed=2, size_bytes=4 << 20)]),
        where=("logits",),
        good=lambda _: Facts(on_gpu=[PageOutput(name="logits", made=60, disposed=59, size_bytes=4 << 20)]),
    ),
    "SHP008": Example(
        bad=lambda folder: at_two_lengths(folder, 1.0, 12.0),
        where=("scores", "mixed", "shares"),
        good=lambda folder: at_two_lengths(folder, 1.0, 4.1),
    ),
    **{
        code: Example(
            bad=lambda _, change=change: soaked(change, flattens=True),  # type: ignore[misc]
            good=lambda _, change=change: soaked(change, flattens=False),  # type: ignore[misc]
        )
        for code, change in SOAKED.items()
    },
    "MSR010": Example(
        bad=lambda folder: facts_of(folder, NON_ZERO, kinds=[timed(*[1.0] * 9), timed(*[2.0] * 9)]),
        where=("NonZero found",),
        good=lambda folder: facts_of(folder, NON_ZERO, kinds=[timed(*[1.0] * 9), timed(*[1.1] * 9)]),
    ),
    **{
        code: Example(bad=lambda _, bad=bad: bad, where=where, good=lambda _, good=good: good)  # type: ignore[misc]
        for code, (bad, where, good) in RECORDED.items()
    },
}
