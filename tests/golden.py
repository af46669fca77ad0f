"""Complete results of every kind, built by hand, for the tests of what is shown."""

from __future__ import annotations

import io

import msgspec
from rich.console import Console

from ortune.records import (
    CaseResult,
    Comparison,
    Control,
    Envelope,
    Failed,
    Figures,
    Finding,
    Gate,
    Guard,
    Host,
    ModelInfo,
    OutputDifference,
    Plan,
    ProviderReport,
    ReadBack,
    Runtime,
    RuntimeReport,
    Side,
)
from ortune.show import escape, terminal
from ortune.show.document import Code, Document
from ortune.verbs.compare.result import CompareResult
from ortune.verbs.doctor.result import DoctorResult, EffectRow, NoiseReport


def printed(document: Document, width: int, *, whole: bool = False) -> str:
    """The document as the terminal shows it, as plain text at that width, with what supports it where that is asked."""
    page = io.StringIO()
    Console(file=page, width=width, highlight=False).print(terminal.render(document, whole=whole), crop=False)
    return page.getvalue()


def widest(document: Document, width: int) -> int:
    """The longest line that is shown at that width, all of the document asked for; code is never folded."""
    code = [b for b in (*document.blocks, *document.support) if isinstance(b, Code)]
    pasted = {escape.shown(line) for block in code for line in block.lines}
    lines = printed(document, width, whole=True).splitlines()
    return max(len(line) for line in lines if line not in pasted)


HOST = Host(
    system="Linux",
    machine="x86_64",
    cpu="A Processor @ 2.70GHz",
    cores=2,
    logical=4,
    affinity=4,
    quota=1.5,
    effective_cpus=2,
    memory_bytes=16 * 2**30,
    memory_limit_bytes=2 * 2**30,
    features=("avx2", "fma"),
    gpus=("A GPU",),
)
RUNTIME = Runtime(
    python="/venv/bin/python",
    python_version="3.11.7",
    ort_version="1.31.1",
    package="onnxruntime",
    origin="$VIRTUAL_ENV",
)
CONTROLS = (
    Control(name="identical", ok=True, n_blocks=9, p=0.5),
    Control(
        name="spike-in",
        ok=True,
        n_blocks=9,
        expected_ratio=1.05,
        ratio_low=1.04,
        ratio_high=1.06,
        detected=True,
    ),
    Control(name="identical-late", ok=True, n_blocks=3, p=0.31),
)


def side(label: str = "a.onnx", **settings: bool | int | str) -> Side:
    """A side of a comparison with a model of that name."""
    model = ModelInfo(path=label, format="onnx", sha256="0" * 64, size_bytes=1000)
    return Side(label=label, model=model, plan=Plan(settings=settings), runtime=RUNTIME)


def figures(latency_ns: float, objective_ns: float | None = None, peak_mib: float = 260) -> Figures:
    """What describes a side whose typical run takes that long."""
    return Figures(
        latency_ns=latency_ns,
        latency_low_ns=0.9 * latency_ns,
        latency_high_ns=1.1 * latency_ns,
        load_ns=225e6,
        first_run_ns=12.4e6,
        cpu_per_run_ns=1.5 * latency_ns,
        peak_bytes=peak_mib * 2**20,
        spread_ratio=1.27,
        spread_low_ratio=1.2,
        spread_high_ratio=1.3,
        p95_ns=1.2 * latency_ns,
        n_trials=24,
        n_runs=480,
        objective_ns=objective_ns,
    )


def comparison(**changes: object) -> Comparison:
    """B is 1.11x faster, unless changed."""
    usual = Comparison(
        statistic="p50 latency (of each process)",
        ratio=0.9,
        ratio_low=0.88,
        ratio_high=0.92,
        level=0.95,
        method="confidence sequence",
        n_blocks=24,
        n_dropped=1,
        evidence=812.0,
        smallest_effect_ratio=0.021,
        phase="race",
        verdict="faster",
        guards=(
            Guard(figure="mean", ratio=0.91, ratio_low=0.9, ratio_high=0.92, limit_ratio=1.05),
            Guard(figure="p95", limit_ratio=1.05, known=False, note="not known: too few samples"),
            Guard(figure="memory", ratio=1.3, ratio_low=1.2, ratio_high=1.4, limit_ratio=1.1, failed=True),
        ),
    )
    return msgspec.structs.replace(usual, **changes)


def compared(**changes: object) -> Envelope:
    """A document of ``compare``; ``changes`` are fields of the CompareResult."""
    usual = CompareResult(
        base=side("a.onnx"),
        new=side("b.onnx", graph_optimization_level="basic", allow_spinning=False),
        comparison=comparison(),
        outputs=OutputDifference(ok=True, relative_l2=9e-7),
        base_figures=figures(11e6),
        new_figures=figures(9.9e6, peak_mib=338),
        cases=(
            CaseResult(
                case="seq=16",
                weight=0.75,
                base_ns=8e6,
                new_ns=7e6,
                ratio=0.875,
                ratio_low=0.86,
                ratio_high=0.89,
            ),
            CaseResult(
                case="seq=128",
                weight=0.25,
                base_ns=20e6,
                new_ns=19e6,
                ratio=0.95,
                ratio_low=0.8,
                ratio_high=None,
            ),
        ),
        controls=CONTROLS,
        findings=(Finding(code="MSR001", what="latency depends on the values fed", fix="give --inputs"),),
        read_back=(
            ReadBack(knob="graph_optimization_level", level="echo", ok=True, seen="X.ORT_ENABLE_BASIC"),
            ReadBack(knob="allow_spinning", level="effect", ok=True, seen="idle CPU 0.01"),
        ),
        notes=("decoder: one step at past=128; prefill not measured",),
        failures=(Failed(plan="0" * 12, reason="crash", what="killed by SIGSEGV while running"),),
        gate=Gate(threshold_ratio=0.05, answer="pass", undecided_counts_as="pass", provable_ratio=0.021),
        elapsed_s=42.0,
    )
    result = msgspec.structs.replace(usual, **changes)
    return Envelope(
        schema="ortune/compare/1",
        ortune="0.1.0",
        host=HOST,
        status="ok",
        verdict=result.comparison.verdict if result.comparison else "wrong-output",
        result=result,
    )


def diagnosed(**changes: object) -> Envelope:
    """A document of ``doctor``; ``changes`` are fields of the DoctorResult."""
    usual = DoctorResult(
        runtimes=(
            RuntimeReport(
                runtime=RUNTIME,
                providers=(
                    ProviderReport(name="CPUExecutionProvider", in_build=True, usable=True),
                    ProviderReport(
                        name="CUDAExecutionProvider",
                        in_build=False,
                        usable=False,
                        why="not in this build; pip install onnxruntime-gpu",
                    ),
                ),
                problems=("two wheels are installed into one folder",),
            ),
        ),
        allocators={"mimalloc": "/usr/lib/libmimalloc.so.2"},
        findings=(
            Finding(code="THR001", what="threads exceed the quota", evidence="2 > 1.5", fix="--set intra=1"),
        ),
        noise=NoiseReport(
            model="a small convolutional network",
            latency_ns=1.2e6,
            trial_s=0.31,
            block_scale=0.013,
            controls=CONTROLS,
            table=(
                EffectRow(minutes=0.5, n_blocks=4, smallest_effect_ratio=None),
                EffectRow(minutes=2, n_blocks=60, smallest_effect_ratio=0.012),
            ),
            status="ok",
        ),
    )
    return Envelope(
        schema="ortune/doctor/1",
        ortune="0.1.0",
        host=HOST,
        status="ok",
        verdict="ok",
        result=msgspec.structs.replace(usual, **changes),
    )
