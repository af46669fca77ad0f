"""``ortune tune MODEL``."""

from __future__ import annotations

from typing import Annotated

import typer

from ortune.cli import options as o
from ortune.cli.session import Say, Stop, chosen_format, reporting, write_answer

STOPPING = (
    "stopping the race; the best plan so far is then confirmed with nine blocks; Ctrl-C again stops at once"
)


def tune(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="model.onnx or model.ort.")],
    settings: o.Set = [],
    rewrite: Annotated[
        list[str],
        typer.Option(
            "--rewrite",
            metavar="NAME[:k=v]",
            help="A rewrite of the model, part of every plan tried. Repeatable.",
            rich_help_panel=o.MODEL,
        ),
    ] = [],
    plan: o.PlanFile = None,
    current: Annotated[
        str | None,
        typer.Option(
            "--current",
            metavar="PLAN",
            help="What you run today: default, 'intra=4,spin=0', a plan.json or a NAME.ortune. The headline is then against it.",
            rich_help_panel=o.MODEL,
        ),
    ] = None,
    python: o.Python = None,
    target: o.Target = "cpu",
    shape: o.Shape = [],
    dim: o.Dim = [],
    inputs: o.Inputs = None,
    workload: o.WorkloadFile = None,
    save_workload: o.SaveWorkload = None,
    custom_ops: o.CustomOps = [],
    objective: o.Objective = "latency",
    gap: o.Gap = "0",
    sessions: o.Sessions = 1,
    callers: o.Callers = 1,
    cpus: o.Cpus = None,
    memory: o.Memory = None,
    tolerance: o.Tolerance = None,
    budget: o.Budget = "3m",
    worth: Annotated[
        str,
        typer.Option(
            "--worth", metavar="1%", help="The smallest gain that is worth a change.", rich_help_panel=o.RUN
        ),
    ] = "1%",
    allow: Annotated[
        list[str],
        typer.Option(
            "--allow",
            metavar="WHAT",
            help="Let through: numerics, behaviour, or a guard (mean, p95, memory, cpu). Repeatable.",
            rich_help_panel=o.RUN,
        ),
    ] = [],
    seed: o.Seed = 0,
    no_wait: o.NoWait = False,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="[ID]",
            help="Go on with the newest interrupted session of this model and these options, or with ID.",
            rich_help_panel=o.RUN,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing bundle.", rich_help_panel=o.OUT)
    ] = False,
    bundle: Annotated[
        bool,
        typer.Option("--bundle/--no-bundle", help="Write the bundle NAME.ortune.", rich_help_panel=o.OUT),
    ] = True,
    store: o.StorePath = None,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="DIR", help="Folder for the bundle.", rich_help_panel=o.OUT),
    ] = ".",
    format: o.Format = "text",
    as_json: o.Json = False,
) -> None:
    """The fastest correct way to run a model on this machine, proven.

    Tries settings one at a time against the untouched default, combines those that help, drops those that do not
    pay, and confirms the winner on fresh blocks. Writes NAME.ortune: model, settings, code, report and proof.
    """
    with reporting("tune", as_json or format == "json"):
        form = chosen_format(format, as_json, ("text", "json", "markdown", "github"))
        import ortune
        from ortune import Watcher
        from ortune.report.tune_words import document

        say = Say()
        stop = Stop(say, STOPPING)
        with stop.listening(), say.progress() as progress:
            envelope = ortune.tune(
                model, set=settings, rewrite=rewrite, plan=plan, current=current, python=python, target=target,
                shape=shape, dim=dim, inputs=inputs, workload=workload, save_workload=save_workload,
                custom_ops=custom_ops, objective=objective, gap=gap, sessions=sessions, callers=callers, cpus=cpus,
                memory=memory, tolerance=tolerance, budget=budget, worth=worth, allow=allow, seed=seed,
                no_wait=no_wait, resume=resume, output=output, bundle=bundle, force=force, store=store,
                watcher=Watcher(say=say, stop=stop, line=progress),
            )  # fmt: skip
        write_answer(envelope, document, form, None)
