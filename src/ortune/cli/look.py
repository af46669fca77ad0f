"""``ortune MODEL``."""

from __future__ import annotations

from typing import Annotated

import typer

from ortune.cli import options as o
from ortune.cli.session import Say, Stop, chosen_format, reporting, tell, write_answer


def look(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="model.onnx, model.ort, NAME.ortune or model.onnx@revision."),
    ],
    settings: o.Set = [],
    plan: o.PlanFile = None,
    python: o.Python = None,
    target: o.Target = "cpu",
    shape: o.Shape = [],
    dim: o.Dim = [],
    inputs: o.Inputs = None,
    workload: o.WorkloadFile = None,
    save_workload: o.SaveWorkload = None,
    custom_ops: o.CustomOps = [],
    budget: Annotated[
        str,
        typer.Option("--budget", metavar="8s", help="What takes longer is left out.", rich_help_panel=o.RUN),
    ] = "8s",
    seed: o.Seed = 0,
    no_wait: o.NoWait = False,
    store: o.StorePath = None,
    output: o.Output = None,
    format: o.PlainFormat = "text",
    as_json: o.Json = False,
) -> None:
    """A first look at a model, in ten seconds; ortune MODEL is short for it.

    Says what the file holds, which inputs were chosen, how long a run takes with the default settings (a single
    observation), which operators take the time, what stands out, and what to do next.
    """
    with reporting("look", as_json or format == "json"):
        form = chosen_format(format, as_json, ("text", "json", "markdown"))
        import ortune
        from ortune import Watcher
        from ortune.errors import OrtuneError
        from ortune.report.look_words import document
        from ortune.verbs.look import exit_code

        say = Say()
        stop = Stop(say, "")
        with stop.listening(), say.progress() as progress:
            envelope = ortune.look(
                model, set=settings, plan=plan, python=python, target=target, shape=shape, dim=dim, inputs=inputs,
                workload=workload, save_workload=save_workload, custom_ops=custom_ops, budget=budget, seed=seed,
                no_wait=no_wait, store=store, watcher=Watcher(say=say, stop=stop, line=progress),
            )  # fmt: skip
        write_answer(envelope, document, form, output)
        if envelope.error:
            e = envelope.error
            tell("look", OrtuneError(e.what, where=e.where, do=e.do, code=e.code), as_json=False)
        raise typer.Exit(exit_code(envelope))
