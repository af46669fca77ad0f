"""``ortune lock``."""

from __future__ import annotations

from typing import Annotated

import typer

from ortune.cli import options as o
from ortune.cli.session import Say, chosen_format, reporting, write_answer


def lock(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="model.onnx, a bundle, or model.onnx@git-revision.")
    ],
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="With --check: the lock file; default is MODEL.lock.json.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Compare with the lock; exit 1 when something changed.", rich_help_panel=o.GATE
        ),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Every difference fails, also another onnxruntime alone.", rich_help_panel=o.GATE
        ),
    ] = False,
    set: o.Set = [],
    rewrite: o.Rewrite = [],
    plan: o.PlanFile = None,
    python: o.Python = None,
    target: o.Target = "cpu",
    shape: o.Shape = [],
    dim: o.Dim = [],
    inputs: o.Inputs = None,
    custom_ops: o.CustomOps = [],
    tolerance: o.Tolerance = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            help="Seed of the inputs; default is 0, or with --check that of the lock.",
            show_default=False,
            rich_help_panel=o.RUN,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The lock file to write; with --check, where the answer goes.",
            rich_help_panel=o.OUT,
        ),
    ] = None,
    format: o.Format = "text",
    as_json: o.Json = False,
) -> None:
    """What does ONNX Runtime make of this model, and is it still the same?

    Writes operators by level of optimisation, fusions, memory, sizes and rounded outputs to MODEL.lock.json, or
    compares the model with that file (--check). Nothing is timed, so it never flakes.
    """
    with reporting("lock", as_json or format == "json"):
        form = chosen_format(format, as_json)
        import ortune
        from ortune import Watcher
        from ortune.report.lock_words import document

        envelope = ortune.lock(
            model, file, check=check, strict=strict, set=set, rewrite=rewrite, plan=plan, python=python, target=target,
            shape=shape, dim=dim, inputs=inputs, custom_ops=custom_ops, tolerance=tolerance, seed=seed,
            output=None if check else output, watcher=Watcher(say=Say()),
        )  # fmt: skip
        place = output if check else None
        write_answer(envelope, document, form, place)
        raise typer.Exit(1 if envelope.verdict == "changed" else 0)
