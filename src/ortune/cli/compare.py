"""``ortune compare A B``."""

from __future__ import annotations

from typing import Annotated

import typer

from ortune.cli import options as o
from ortune.cli.session import Say, Stop, chosen_format, reporting, write_answer

STOPPING = "stopping after this trial, then telling what is known; Ctrl-C again stops at once"


def compare(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="The base: model.onnx, model.ort, NAME.ortune or model.onnx@git-revision."
        ),
    ],
    b: Annotated[
        str | None,
        typer.Argument(
            metavar="[B]", help="The new side; also a plan.json. Omitted: A's model.", show_default=False
        ),
    ] = None,
    settings: o.Set = [],
    a_set: Annotated[
        list[str],
        typer.Option("--a-set", metavar="KNOB=VALUE", help="A setting of A alone.", rich_help_panel=o.MODEL),
    ] = [],
    b_set: Annotated[
        list[str],
        typer.Option("--b-set", metavar="KNOB=VALUE", help="A setting of B alone.", rich_help_panel=o.MODEL),
    ] = [],
    rewrite: o.Rewrite = [],
    b_rewrite: Annotated[
        list[str],
        typer.Option(
            "--b-rewrite", metavar="NAME[:k=v]", help="A rewrite of B alone.", rich_help_panel=o.MODEL
        ),
    ] = [],
    plan: o.PlanFile = None,
    python: o.Python = None,
    a_python: Annotated[
        str | None,
        typer.Option("--a-python", metavar="PATH", help="Interpreter of A alone.", rich_help_panel=o.MODEL),
    ] = None,
    b_python: Annotated[
        str | None,
        typer.Option("--b-python", metavar="PATH", help="Interpreter of B alone.", rich_help_panel=o.MODEL),
    ] = None,
    target: o.Target = "cpu",
    shape: o.Shape = [],
    dim: o.Dim = [],
    inputs: o.Inputs = None,
    workload: o.WorkloadFile = None,
    save_workload: o.SaveWorkload = None,
    map_inputs: Annotated[
        list[str],
        typer.Option(
            "--map", metavar="a=b", help="Input a of A is input b of B. Repeatable.", rich_help_panel=o.MODEL
        ),
    ] = [],
    custom_ops: o.CustomOps = [],
    objective: o.Objective = "latency",
    gap: o.Gap = "0",
    sessions: o.Sessions = 1,
    callers: o.Callers = 1,
    cpus: o.Cpus = None,
    memory: o.Memory = None,
    tolerance: o.Tolerance = None,
    budget: o.Budget = "2m",
    max_blocks: Annotated[
        int | None,
        typer.Option(
            "--max-blocks",
            metavar="N",
            min=9,
            help="Blocks at most (60, more with a longer --budget).",
            rich_help_panel=o.RUN,
        ),
    ] = None,
    inject_wait: Annotated[
        str | None,
        typer.Option(
            "--inject-wait",
            metavar="5%",
            help="For testing: a busy wait in each run of B.",
            rich_help_panel=o.RUN,
        ),
    ] = None,
    seed: o.Seed = 0,
    no_why: Annotated[
        bool,
        typer.Option(
            "--no-why", help="Do not profile both sides after a proven difference.", rich_help_panel=o.RUN
        ),
    ] = False,
    no_wait: o.NoWait = False,
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="5%",
            help="Exit 1 if a regression beyond this is proven.",
            rich_help_panel=o.GATE,
        ),
    ] = None,
    undecided: Annotated[
        str,
        typer.Option(
            "--undecided",
            metavar="pass|fail",
            help="What an undecided gate counts as.",
            rich_help_panel=o.GATE,
        ),
    ] = "pass",
    store: o.StorePath = None,
    output: o.Output = None,
    format: o.Format = "text",
    as_json: o.Json = False,
) -> None:
    """Is B faster than A on this machine?

    Runs both sides in fresh processes, in random order, block by block, until the evidence answers or the time is
    up (2 minutes). Says "no difference" when that is so, and what it could have seen.
    """
    with reporting("compare", as_json or format == "json"):
        form = chosen_format(format, as_json)
        import ortune
        from ortune import Watcher
        from ortune.report.compare_words import document
        from ortune.verbs.compare_options import exit_code, progress_line

        say = Say()
        stop = Stop(say, STOPPING)
        with stop.listening(), say.progress() as progress:
            envelope = ortune.compare(
                a, b, set=settings, a_set=a_set, b_set=b_set, rewrite=rewrite, b_rewrite=b_rewrite, plan=plan, python=python,
                a_python=a_python, b_python=b_python, target=target, shape=shape, dim=dim, inputs=inputs,
                workload=workload, save_workload=save_workload, map=map_inputs, custom_ops=custom_ops,
                objective=objective, gap=gap, sessions=sessions, callers=callers, cpus=cpus, memory=memory,
                tolerance=tolerance, budget=budget, max_blocks=max_blocks, inject_wait=inject_wait, seed=seed,
                no_why=no_why, no_wait=no_wait, threshold=threshold, undecided=undecided, store=store,
                watcher=Watcher(say=say, stop=stop, block=lambda *state: progress(progress_line(*state))),
            )  # fmt: skip
        write_answer(envelope, document, form, output)
        raise typer.Exit(exit_code(envelope))
