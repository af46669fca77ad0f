"""The table of columns in the documentation: as the exporter writes them, and all that a trace holds.

    python tests/trace/test_columns_doc.py

prints the table as it must stand in docs/profile.md.
"""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import numpy as np

from ortune.records import ProfileResult, TraceInfo
from ortune.trace.export import columns, csv
from ortune.trace.read import read_trace
from ortune.trace.table import Kernels, Labels, Nodes, Trace

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "profile.md"
HEAD = "| column | rows | type | unit | what it is |\n|---|---|---|---|---|\n"
UNITS = {"_ns": "ns", "_bytes": "bytes", "_flops": "operations"}
NOT_COLUMNS = {
    "pieces",
    "executions",
    "format",
    "device_only",
    "resolution_ns",
    "session_ns",
    "n_events",
    "n_unreadable",
    "n_mended",
    "lost",
    "n_left_out",
    "n_outside",
    "complete",
    "missing",
    "lacks",
    "page_runs",
}


def written() -> dict[str, np.ndarray]:
    """Every array that is written of a real trace."""
    trace = read_trace(ROOT / "tests" / "trace" / "golden" / "web-native-1.30.0.log")
    info = TraceInfo(path="", format=trace.format, n_events=trace.n_events, n_runs=trace.n_runs)
    file = io.BytesIO()
    columns.write(trace, ProfileResult(trace=info, n_runs=0, wall_ns=0.0, categories=()), file)
    file.seek(0)
    with np.load(file) as arrays:
        return {name: arrays[name] for name in arrays}


def table() -> str:
    """The table as it must be."""
    arrays = written()
    lines = []
    for name, about in columns.COLUMNS.items():
        rows, sign, meaning = about.partition(": ")
        if not sign:
            rows, meaning = "table", about
        kind = arrays[name].dtype
        dtype = "string" if kind.kind == "U" else kind.name
        unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), "")
        lines.append(f"| `{name}` | {rows} | {dtype} | {unit} | {meaning} |\n")
    return HEAD + "".join(lines)


def test_the_documentation_has_every_column_as_it_is_written() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert table() in text, "python tests/trace/test_columns_doc.py prints the table"


def test_every_column_of_a_trace_is_written() -> None:
    def of(kind: type, prefix: str = "") -> set[str]:
        names = set()
        for field in dataclasses.fields(kind):
            if field.name not in NOT_COLUMNS | {"nodes", "kernels"}:
                labels = field.type in (Labels, "Labels")
                names.add(f"{prefix}{field.name}{'_code' if labels else ''}")
        return names

    expected = of(Trace) | of(Nodes, "node_") | of(Kernels, "kernel_")
    names = {name.replace("run_executor_ns", "executor_ns") for name in columns.COLUMNS}
    assert expected <= names, expected - names
    assert set(written()) == {*columns.COLUMNS, "about"}


def test_the_documentation_has_every_column_of_the_csv_files() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for names in (csv.EXECUTIONS, csv.NODES):
        listed = ", ".join(f"`{name}`" for name in names)
        assert listed in " ".join(text.split()), listed


if __name__ == "__main__":
    print(table())
    for names in (csv.EXECUTIONS, csv.NODES):
        print(", ".join(f"`{name}`" for name in names))
