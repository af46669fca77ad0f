"""``ortune bench MODEL``."""

from __future__ import annotations

from typing import Annotated

import typer

from ortune.cli import options as o
from ortune.cli.session import Say, Stop, chosen_format, reporting, write_answer


def bench(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="model.onnx, model.ort, NAME.ortune or model.onnx@git-revision."
        ),
    ],
    settings: o.Set = [],
    rewrite: o.Rewrite = [],
    plan: o.PlanFile = None,
    python: o.Python = None,
    target: o.Target = "cpu",
    shape: o.Shape = [],
    dim: Annotated[
        list[str],
        typer.Option(
            "--dim",
            metavar="seq=16,128,512",
            help="Value of a dynamic dimension; several give a row each. Repeatable.",
            rich_help_panel=o.MODEL,
        ),
    ] = [],
    inputs: o.Inputs = None,
    workload: o.WorkloadFile = None,
    save_workload: o.SaveWorkload = None,
    custom_ops: o.CustomOps = [],
    gap: o.Gap = "0",
    sessions: o.Sessions = 1,
    callers: o.Callers = 1,
    shared_pool: Annotated[
        bool, typer.Option("--shared-pool", help="One thread pool for all sessions.", rich_help_panel=o.RUN)
    ] = False,
    shared_arena: Annotated[
        bool, typer.Option("--shared-arena", help="One memory arena for all sessions.", rich_help_panel=o.RUN)
    ] = False,
    cpus: o.Cpus = None,
    memory: o.Memory = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            metavar="N",
            help="Fresh processes a shape. Default: as many as the budget holds, 3 or more.",
            rich_help_panel=o.RUN,
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            "--runs", metavar="N", help="Timed requests a process and caller.", rich_help_panel=o.RUN
        ),
    ] = None,
    budget: o.Budget = "20s",
    seed: o.Seed = 0,
    no_wait: o.NoWait = False,
    store: o.StorePath = None,
    output: o.Output = None,
    format: o.PlainFormat = "text",
    as_json: o.Json = False,
) -> None:
    """How long does this model take with these settings?

    Latency with its tails, throughput, load time, memory and CPU time, each with an interval over several fresh
    processes; a row for each shape. To find out whether something else is faster, use compare.
    """  # fmt: skip
    with reporting("bench", as_json or format == "json"):
        form = chosen_format(format, as_json, ("text", "json", "markdown"))
        import ortune
        from ortune import Watcher
        from ortune.report.bench_words import document

        say = Say()
        stop = Stop(
            say, "stopping after this process, then telling what is known; Ctrl-C again stops at once"
        )
        with stop.listening(), say.progress() as progress:
            envelope = ortune.bench(
                model, set=settings, rewrite=rewrite, plan=plan, python=python, target=target, shape=shape, dim=dim,
                inputs=inputs, workload=workload, save_workload=save_workload, custom_ops=custom_ops, gap=gap,
                sessions=sessions, callers=callers, shared_pool=shared_pool, shared_arena=shared_arena, cpus=cpus,
                memory=memory, processes=processes, runs=runs, budget=budget, seed=seed, no_wait=no_wait, store=store,
                watcher=Watcher(say=say, stop=stop, line=progress),
            )  # fmt: skip
        write_answer(envelope, document, form, output)
