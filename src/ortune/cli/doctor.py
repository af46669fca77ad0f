"""``ortune doctor``."""

from __future__ import annotations

from typing import Annotated

import typer

from ortune.cli import options as o
from ortune.cli.session import Say, Stop, chosen_format, reporting, write_answer


def doctor(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="Measure the noise with this model; default is a small one of ortune's own.",
            show_default=False,
        ),
    ] = None,
    python: o.Python = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure/--no-measure",
            help="Measure the noise and the machine's peaks too (about half a minute).",
            rich_help_panel=o.RUN,
        ),
    ] = True,
    shape: o.Shape = [],
    dim: o.Dim = [],
    inputs: o.Inputs = None,
    custom_ops: o.CustomOps = [],
    no_wait: o.NoWait = False,
    store: o.StorePath = None,
    output: o.Output = None,
    format: o.PlainFormat = "text",
    as_json: o.Json = False,
) -> None:
    """What can this machine run, and what is the smallest difference that it can show?

    Lists the ONNX Runtime builds found and why providers are absent, what is in the way of speed, and measures the
    controls: an identical plan and a known wait. Then what the machine does at most: products and memory.
    """
    with reporting("doctor", as_json or format == "json"):
        form = chosen_format(format, as_json, ("text", "json", "markdown"))
        import ortune
        from ortune import Watcher
        from ortune.report.doctor_words import document

        say = Say()
        stop = Stop(say, "stopping after this trial; Ctrl-C again stops at once")
        with stop.listening(), say.progress() as progress:
            envelope = ortune.doctor(
                model, python=python, measure=measure, shape=shape, dim=dim, inputs=inputs, custom_ops=custom_ops,
                no_wait=no_wait, store=store, watcher=Watcher(say=say, stop=stop, line=progress),
            )  # fmt: skip
        write_answer(envelope, document, form, output)
        invalid = envelope.verdict == "invalid"
        raise typer.Exit(3 if invalid else 0)
