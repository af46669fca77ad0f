"""The runtimes that ortune made, in words."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import AddableRuntime, Envelope, MadeRuntime, RuntimeResult
from ortune.report.document import Block, Column, Document, Line, Points, table
from ortune.report.numbers import size


def document(envelope: Envelope[RuntimeResult]) -> Document:
    """What was done, what there is with its size and licences, and what could be added."""
    result = envelope.result
    assert result is not None
    blocks: list[Block] = []
    if result.action != "list":
        done = {"add": "made", "remove": "removed"}[result.action]
        nothing = {"add": "all were already installed", "remove": "nothing was installed"}
        names = ", ".join(result.changed)
        blocks.append(Line(f"{done} {names}" if names else nothing[result.action], "strong"))
    if result.runtimes:
        rows = [_row(runtime) for runtime in result.runtimes]
        columns = [Column("--runtime", "label"), Column("onnxruntime"), Column("Python"), Column("on disk")]
        blocks.append(table([*columns, Column("packages and licences", "text")], rows, dense=True))
        blocks += [
            Line(f"{runtime.name}: passed over {reason}", "faint")
            for runtime in result.runtimes
            for reason in runtime.passed_over
        ]
        blocks.append(Line(f"in {result.folder}; ortune runtime remove NAME frees the space", "faint"))
    else:
        blocks.append(Line("no runtime is installed"))
    blocks.append(Points(title="available", items=offers(result.addable)))
    return Document(blocks=blocks)


def offers(addable: Sequence[AddableRuntime]) -> list[str]:
    """Each runtime that could be added, with what it brings, its size and the command."""
    return [
        f"{addition.name}: {addition.what} ({' '.join(addition.packages)}; {_cost(addition)}) -> {addition.command}"
        for addition in addable
    ]


def _cost(addition: AddableRuntime) -> str:
    download = f"{size(addition.download_bytes)} to download, " if addition.download_bytes else ""
    return f"{download}about {size(addition.about_bytes)} on disk"


def _row(runtime: MadeRuntime) -> tuple[str, ...]:
    packages = (
        f"{p.name} {p.version} ({p.license or 'licence unknown'}, {size(p.size_bytes)})"
        for p in runtime.packages
    )
    versions = (runtime.runtime.ort_version or "none", runtime.runtime.python_version)
    return (runtime.name, *versions, size(runtime.size_bytes), ", ".join(packages))
