"""Writes the operator tables of NNAPI and CoreML (``engines/partitions/tables/``) from the wheels of ONNX Runtime.

python tools/make_mobile_tables.py [FOLDER OF WHEELS]

Each wheel holds the lists of its release (``tools/mobile_helpers/*.md``). pip fetches what the folder lacks: some 20 MB
a release. A table says of each operator in which of these releases it was listed first; none was ever taken out.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from ortune.catalogue.providers import COREML_NETWORK as NETWORK

TABLES = Path(__file__).resolve().parents[1] / "src" / "ortune" / "engines" / "partitions" / "tables"
RELEASES = (
    "1.16.3", "1.17.3", "1.18.1", "1.19.2", "1.20.1", "1.21.1", "1.22.1", "1.23.2", "1.24.4", "1.25.1", "1.26.0",
    "1.27.0", "1.28.0", "1.29.0", "1.30.0", "1.31.1", "1.32.0",
)  # fmt: skip
"""The last patch of each minor release, oldest first."""

LISTS = {
    "nnapi": ("nnapi_supported_ops.md",),
    # Until 1.18 the one list of CoreML was that of NeuralNetwork.
    NETWORK: ("coreml_supported_neuralnetwork_ops.md", "coreml_supported_ops.md"),
    "coreml": ("coreml_supported_mlprogram_ops.md",),
}
ONNX = re.compile(r"^ai[.:]onnx[.:]")
"""The domain; in some rows one of its stops is the other."""

SPELLING = {"Argmax": "ArgMax"}
"""What the lists misspell, as ONNX has it."""


def operators(text: str) -> set[str]:
    """The operators of a list, those of other domains than ONNX's with the domain."""
    found = set()
    for line in text.splitlines():
        cell = line.split("|")[1].strip() if line.startswith("|") else ""
        name = ONNX.sub("", cell)
        if name != cell or ":" in cell:
            found.add(SPELLING.get(name, name))
    return found


def lists(wheels: Path, release: str) -> dict[str, set[str]]:
    """The operators of each table that a release knows."""
    if not list(wheels.glob(f"onnxruntime-{release}-*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--dest", str(wheels), f"onnxruntime=={release}"], check=True)
    (wheel,) = wheels.glob(f"onnxruntime-{release}-*.whl")
    with zipfile.ZipFile(wheel) as opened:
        texts = {Path(n).name: n for n in opened.namelist() if "mobile_helpers" in n and n.endswith(".md")}
        return {
            table: operators(opened.read(texts[name]).decode())
            for table, names in LISTS.items()
            for name in names
            if name in texts
        }


def main() -> None:
    with tempfile.TemporaryDirectory() as nowhere:
        wheels = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(nowhere)
        by_release = {release: lists(wheels, release) for release in RELEASES}
    for table, names in LISTS.items():
        since: dict[str, str] = {}
        for release, tables in by_release.items():
            listed = tables.get(table, set())
            assert since.keys() <= listed, f"{since.keys() - listed} are gone from {table} in {release}"
            since |= dict.fromkeys(listed - since.keys(), release)
        document = {
            "source": f"onnxruntime/tools/mobile_helpers/{names[0]}",
            "releases": [release for release in RELEASES if table in by_release[release]],
            "since": dict(sorted(since.items())),
        }
        (TABLES / f"{table}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
