"""Unsupported operators split the model into many accelerator regions.

What it is: NNAPI, CoreML or QNN runs the model in three or more regions, with unsupported nodes in between that stay on
    the CPU. XNNPACK itself runs on the CPU, so its regions need no copies.
Why it costs: every boundary copies tensors between accelerator and CPU, and transfers control. With many small regions,
    that takes longer than running everything on the CPU.
Evidence: the operators and constraints of the provider, and the regions that ONNX Runtime's partitioner creates from
    the graph in the file. ``ortune partition`` counts the regions at level basic, where the number may differ.
Fix and its safety: advice: run ``ortune partition``. It names the operator that splits the model most, and the rewrite
    that replaces this operator, if there is one.
Example: ``ortune partition model.onnx --for nnapi``
References: ONNX Runtime documentation, "Performance tuning" of ORT mobile; "Model usability checker".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import NNAPI
from ortune.records import Finding
from ortune.rules._mobile import ACCELERATORS, partition_of
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "MOB003"
TIER = "preview"
TARGET = NNAPI.target

_MOST = 2

_HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
BAD = f"""
{_HEAD}
split (float[1,8] x) => (float[1,8] y)
{{
    a = Relu (x)
    [bad_first] b = Mod <fmod = 1> (a, a)
    c = Relu (b)
    [bad_second] d = Mod <fmod = 1> (c, c)
    y = Relu (d)
}}
"""
GOOD = f"""
{_HEAD}
whole (float[1,8] x) => (float[1,8] y)
{{
    a = Relu (x)
    b = Add (a, a)
    y = Relu (b)
}}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the provider splits the model into many regions."""
    partition = partition_of(facts) if facts.target in ACCELERATORS else None
    if partition is None or len(partition.regions) <= _MOST:
        return
    left = list(partition.left)
    yield Finding(
        code=CODE,
        what=(
            f"{facts.provider.target} splits the graph in the file into {len(partition.regions)} regions; on the "
            f"CPU: {counted(left)}"
        ),
        where=tuple(map(name_of, left)),
        fix=f"find what splits it: ortune partition model.onnx --for {partition.format.name}",
    )
