"""Commands that an answer names: they can be pasted."""

from __future__ import annotations

import golden
import msgspec

from ortune.records import Case, Workload
from ortune.report.answer_commands import why_line

WORK = Workload(cases=(Case(name="default", inputs=()),))


def test_another_model_is_profiled_against_the_base_whose_inputs_are_known() -> None:
    base, new = golden.side("a.onnx"), golden.side("b.onnx", intra_op_num_threads=1)
    assert why_line(base, new, WORK)[:3] == ["ortune", "profile", "b.onnx"]  # the same file under two names
    other = msgspec.structs.replace(new, model=msgspec.structs.replace(new.model, sha256="1" * 64))
    words = why_line(base, other, WORK)
    assert words[:5] == ["ortune", "profile", "a.onnx", "--against", "b.onnx"]
    assert words[5:] == ["--b-set", "intra_op_num_threads=1"]
