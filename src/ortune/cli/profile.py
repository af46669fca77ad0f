"""``ortune profile MODEL`` and ``ortune profile TRACE``."""

from __future__ import annotations

from typing import Annotated

import typer

from ortune.cli import options as o
from ortune.cli.session import Say, Stop, chosen_format, reporting, write_answer


def profile(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|TRACE",
            help="model.onnx, model.ort, NAME.ortune or model.onnx@revision, which is run; or a profile to read.",
        ),
    ],
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="B",
            help="Another model, a plan for the same, or another trace: where the time went, B minus the first.",
            rich_help_panel=o.MODEL,
        ),
    ] = None,
    settings: o.Set = [],
    b_set: Annotated[
        list[str],
        typer.Option(
            "--b-set",
            metavar="KNOB=VALUE",
            help="A setting of B alone; without --against B is the same model. Repeatable.",
            rich_help_panel=o.MODEL,
        ),
    ] = [],
    plan: o.PlanFile = None,
    python: o.Python = None,
    b_python: Annotated[
        str | None,
        typer.Option(
            "--b-python", metavar="PATH", help="Interpreter, or environment, of B.", rich_help_panel=o.MODEL
        ),
    ] = None,
    target: o.Target = "cpu",
    shape: o.Shape = [],
    dim: o.Dim = [],
    inputs: o.Inputs = None,
    workload: o.WorkloadFile = None,
    save_workload: o.SaveWorkload = None,
    custom_ops: o.CustomOps = [],
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            metavar="N",
            help="Profiled processes a side. Default: 1, or 5 with --against.",
            rich_help_panel=o.RUN,
        ),
    ] = None,
    no_peak: Annotated[
        bool,
        typer.Option(
            "--no-peak",
            help="Do not measure what this machine can do at most, where it is not known yet.",
            rich_help_panel=o.RUN,
        ),
    ] = False,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep", metavar="FILE", help="Where ONNX Runtime's own profile is kept.", rich_help_panel=o.OUT
        ),
    ] = None,
    export: Annotated[
        list[str],
        typer.Option(
            "--export",
            metavar="KIND=FILE",
            help="chrome, speedscope, csv, nodes-csv, columns or model-explorer. Repeatable.",
            rich_help_panel=o.OUT,
        ),
    ] = [],
    report: Annotated[
        str | None,
        typer.Option(
            "--report",
            metavar="FILE.html",
            help="A page with tables, drawings and a timeline.",
            rich_help_panel=o.OUT,
        ),
    ] = None,
    budget: Annotated[
        str,
        typer.Option("--budget", metavar="30s", help="For finding inputs that run.", rich_help_panel=o.RUN),
    ] = "30s",
    seed: o.Seed = 0,
    no_wait: o.NoWait = False,
    store: o.StorePath = None,
    output: o.Output = None,
    format: o.PlainFormat = "text",
    as_json: o.Json = False,
) -> None:
    """Where does every millisecond of a run go?

    Runs a model under ONNX Runtime's profiler, or reads a profile that is there already, and divides the run among
    nodes, operators, layers, thread wait, copies, casts and what lies between: the parts sum to the whole.
    """
    with reporting("profile", as_json or format == "json"):
        form = chosen_format(format, as_json, ("text", "json", "markdown"))
        import ortune
        from ortune import Watcher
        from ortune.report.profile_words import document

        say = Say()
        stop = Stop(say, "")
        with stop.listening(), say.progress() as progress:
            envelope = ortune.profile(
                subject, against=against, set=settings, b_set=b_set, plan=plan, python=python, b_python=b_python,
                target=target, shape=shape, dim=dim, inputs=inputs, workload=workload, save_workload=save_workload,
                custom_ops=custom_ops, processes=processes, no_peak=no_peak, keep=keep, export=export, budget=budget,
                report=report, seed=seed, no_wait=no_wait, store=store,
                watcher=Watcher(say=say, stop=stop, line=progress),
            )  # fmt: skip
        write_answer(envelope, document, form, output)
