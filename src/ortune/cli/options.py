"""Options that every verb spells the same."""

from __future__ import annotations

from typing import Annotated

import typer

MODEL, RUN, OUT, GATE = "What to run", "How to measure", "Output", "Gate for CI"

Set = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KNOB=VALUE",
        help="A setting, e.g. intra=4, spin=0, level=basic. Repeatable.",
        rich_help_panel=MODEL,
    ),
]
Rewrite = Annotated[
    list[str],
    typer.Option(
        "--rewrite", metavar="NAME[:k=v]", help="A rewrite of the model. Repeatable.", rich_help_panel=MODEL
    ),
]
PlanFile = Annotated[
    str | None,
    typer.Option(
        "--plan", metavar="FILE.json", help="Settings and providers from a plan file.", rich_help_panel=MODEL
    ),
]
Python = Annotated[
    str | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="Interpreter or venv whose onnxruntime is measured. Default: $VIRTUAL_ENV, ./.venv, ortune's own, python3.",
        rich_help_panel=MODEL,
    ),
]
Target = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="T",
        help="Where it runs: cpu, cuda, tensorrt, openvino, webgpu, qnn.",
        rich_help_panel=MODEL,
    ),
]
CustomOps = Annotated[
    list[str],
    typer.Option(
        "--custom-ops",
        metavar="LIB",
        help="Shared library with custom operators. Repeatable.",
        rich_help_panel=MODEL,
    ),
]
Shape = Annotated[
    list[str],
    typer.Option(
        "--shape", metavar="NAME:1x3x320x320", help="Shape of an input. Repeatable.", rich_help_panel=MODEL
    ),
]
Dim = Annotated[
    list[str],
    typer.Option(
        "--dim",
        metavar="seq=16,128:3",
        help="Value of a dynamic dimension; several make a mix, with weights after a colon. Repeatable.",
        rich_help_panel=MODEL,
    ),
]
Inputs = Annotated[
    str | None,
    typer.Option(
        "--inputs",
        metavar="PATH",
        help="Real inputs: .npz, .npy, or a folder of test_data_set_*.",
        rich_help_panel=MODEL,
    ),
]
WorkloadFile = Annotated[
    str | None,
    typer.Option(
        "--workload", metavar="FILE.json", help="Inputs as saved by --save-workload.", rich_help_panel=MODEL
    ),
]
SaveWorkload = Annotated[
    str | None,
    typer.Option(
        "--save-workload",
        metavar="FILE.json",
        help="Save the inputs that were chosen.",
        rich_help_panel=MODEL,
    ),
]
Objective = Annotated[
    str,
    typer.Option(
        "--objective",
        metavar="WHAT",
        help="latency, p95, throughput, cold-start, memory or cpu.",
        rich_help_panel=RUN,
    ),
]
Gap = Annotated[str, typer.Option("--gap", metavar="30ms", help="Pause between calls.", rich_help_panel=RUN)]
Sessions = Annotated[
    int,
    typer.Option(
        "--sessions", metavar="N", min=1, help="Sessions of the model in one process.", rich_help_panel=RUN
    ),
]
Callers = Annotated[
    int,
    typer.Option(
        "--callers", metavar="N", min=1, help="Threads that call each session.", rich_help_panel=RUN
    ),
]
Cpus = Annotated[
    float | None,
    typer.Option(
        "--cpus", metavar="N", min=0.01, help="Emulate a pod with that many CPUs.", rich_help_panel=RUN
    ),
]
Memory = Annotated[
    str | None,
    typer.Option("--memory", metavar="2g", help="Emulate a pod with that much memory.", rich_help_panel=RUN),
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        "--tolerance", metavar="X", help="Accept outputs this far apart (relative).", rich_help_panel=RUN
    ),
]
Budget = Annotated[
    str, typer.Option("--budget", metavar="2m", help="Time for all measuring.", rich_help_panel=RUN)
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the inputs.", rich_help_panel=RUN)]
StorePath = Annotated[
    str | None, typer.Option("--store", metavar="PATH", help="Where results are kept.", rich_help_panel=OUT)
]
NoWait = Annotated[
    bool,
    typer.Option("--no-wait", help="Fail at once when another ortune is measuring.", rich_help_panel=RUN),
]
Format = Annotated[
    str,
    typer.Option("--format", metavar="FORMAT", help="text, json, github or markdown.", rich_help_panel=OUT),
]
PlainFormat = Annotated[
    str, typer.Option("--format", metavar="FORMAT", help="text, json or markdown.", rich_help_panel=OUT)
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="One JSON document on stdout; the same as --format json.", rich_help_panel=OUT
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the result to a file instead of stdout.",
        rich_help_panel=OUT,
    ),
]
