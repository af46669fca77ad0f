"""``README.md`` of a bundle: its content, gain, how to load it, and where it was measured."""

from __future__ import annotations

from collections.abc import Collection

from ortune.bundle.package import MANIFEST
from ortune.bundle.shared import INDEX, WORKLOAD
from ortune.printable import visible
from ortune.records import BundleInfo

README = "README.md"
_FILES = (
    (INDEX, "the plan, the machine and the confirmation, for programs"),
    (MANIFEST, "makes the folder a model package, which ONNX Runtime 1.32 opens with its settings"),
    ("report.html", "the whole answer: what was tested, with intervals"),
    (WORKLOAD, "the shapes and the load that were measured"),
    ("inputs", "the inputs of the measurement, as ONNX tensors"),
    ("outputs", "the outputs of ONNX Runtime's defaults for these inputs"),
    ("feeds.npz", "the inputs again, for numpy"),
    ("plain", "the original model; the other one was rewritten"),
    ("custom_ops", "libraries with the custom operators of the model"),
    ("deploy", "configurations of servers"),
    ("SHA256SUMS", "digests of all files: `sha256sum -c SHA256SUMS`"),
)
_PYTHON = """```python
from load import load, run

session = load()
outputs = run(session, {"input name": array})
```"""
_WEB = """```js
import { load } from "./load.web.mjs";
```"""


def readme(
    info: BundleInfo, headline: str, name: str, present: Collection[str], languages: Collection[str]
) -> str:
    """Return the text of a bundle's ``README.md``.

    Args:
        info: The index of the bundle.
        headline: The result of the tuning in one sentence.
        name: Name of the model.
        present: Files and folders of the bundle.
        languages: Names of all files that load the model.
    """
    parts = [f"# {_code(name)}", f"This folder contains {_text(info.contains)}.", _text(headline)]
    loaders = sorted(set(languages) & set(present))
    others = [f"`{file}`" for file in loaders if file != "load.py"]
    if "load.py" in loaders:
        parts += ["## Load it", "In Python, with this folder on the path:", _PYTHON]
        parts += [
            "With ortune installed, `ortune.load` with the path of this folder creates the same session."
        ]
    elif "load.web.mjs" in loaders:
        parts += ["## Load it", "In a page:", _WEB]
    if others and "load.py" in loaders:
        parts.append(f"In other languages: {', '.join(others)}.")
    parts += ["## What was measured", _measured(info)]
    rows = [f"| `{file}` | {what} |" for file, what in _FILES if file in present or file == "SHA256SUMS"]
    parts += [
        "## Files",
        "\n".join(["| file | content |", "|---|---|", f"| {_in_table(info.model)} | the model |", *rows]),
    ]
    return "\n\n".join(parts) + "\n"


def _measured(info: BundleInfo) -> str:
    host = info.host
    where = f" on {_text(host.cpu or host.machine)} with {host.effective_cpus} CPUs" if host else ""
    version = f", ONNX Runtime {_text(info.ort_version)}" if info.ort_version else ""
    proof = info.proof
    said = f"Measured{where}{version}."
    if proof is not None:
        said += f" The gain was confirmed in {proof.n_blocks} fresh blocks of processes."
        said += (
            f" Note: {_text(proof.others.words)}." if proof.others is not None and proof.others.words else ""
        )
    again = "`ortune compare` with the path of this folder measures it again; another machine needs its own tuning."
    return f"{said} {again}"


def _text(text: str) -> str:
    """Escape Markdown and HTML in a text."""
    return visible(text).replace("\\", "\\\\").replace("<", "&lt;").replace("`", "\\`").replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{visible(text).replace(chr(96), '')}`"


def _in_table(text: str) -> str:
    return _code(text).replace("|", "\\|")
