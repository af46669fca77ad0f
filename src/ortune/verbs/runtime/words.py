"""The runtimes that ortune installed, in words."""

from __future__ import annotations

from ortune.records import Envelope, MadeRuntime
from ortune.show.document import Block, Column, Document, Line, Points, table
from ortune.show.numbers import size
from ortune.show.runtime_offers import offers
from ortune.verbs.runtime.result import RuntimeResult


def document(envelope: Envelope[RuntimeResult]) -> Document:
    """Return the document: the changes, the installed runtimes, and the runtimes that can be added."""
    result = envelope.result
    assert result is not None
    if result.action == "list":
        return Document(blocks=_listed(result))
    return Document(blocks=[Line(_changed(result), "strong")], support=_listed(result))


def _changed(result: RuntimeResult) -> str:
    """Return a line on an added or removed runtime: "made openvino (1.21 GiB); use it with --runtime openvino"."""
    if not result.changed:
        return "nothing was installed" if result.action == "remove" else "all were already installed"
    if result.action == "remove":
        return f"removed {', '.join(result.changed)}"
    made = [runtime for runtime in result.runtimes if runtime.name in result.changed]
    usable = [runtime.name for runtime in made if runtime.runtime.ort_version]
    use = f"; use it with --runtime {usable[0]}" if len(usable) == 1 else ""
    return f"made {', '.join(f'{runtime.name} ({size(runtime.size_bytes)})' for runtime in made)}{use}"


def _listed(result: RuntimeResult) -> list[Block]:
    """Return blocks on the installed runtimes, with size and licences, and on the runtimes that can be added."""
    blocks: list[Block] = []
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
    return [*blocks, Points(title="available", items=offers(result.addable))]


def _row(runtime: MadeRuntime) -> tuple[str, ...]:
    packages = (
        f"{p.name} {p.version} ({p.license or 'licence unknown'}, {size(p.size_bytes)})"
        for p in runtime.packages
    )
    versions = (runtime.runtime.ort_version or "none", runtime.runtime.python_version)
    return (runtime.name, *versions, size(runtime.size_bytes), ", ".join(packages))
