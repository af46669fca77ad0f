"""What a bench on a phone sends back, compared as what is measured here."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from ortune.errors import MeasurementError, UsageError
from ortune.records import Matrix, MatrixEntry
from ortune.verbs.compare import phone
from ortune.verbs.compare.phone_result import (
    PHONE_SCHEMA,
    PhoneBlock,
    PhoneEntry,
    PhoneOutput,
    PhoneResult,
    PhoneTrial,
)
from within import program

CPU, BASIC, AWARE = "cpu", "nnapi-basic", "nnapi-aware"
MATRIX = Matrix(
    id="1",
    model="m.onnx",
    place="nnapi",
    entries=tuple(
        MatrixEntry(name=name, file=f"{name}.ort", provider=provider, level="basic", sha256="0")
        for name, provider in ((CPU, "cpu"), (BASIC, "nnapi"), (AWARE, "nnapi"))
    ),
    inputs=(),
    left_out=("qnn-basic: no table",),
)


def output(*values: float) -> PhoneOutput:
    return PhoneOutput(name="y", type="FLOAT", shape=(len(values),), data=np.float32(values).tobytes())


def result(
    times_ms: dict[str, float],
    *,
    identical_ms: float | None = None,
    thermal: tuple[int, ...] = (),
    outputs: dict[str, PhoneOutput] | None = None,
    errors: dict[str, str] | None = None,
    n_blocks: int = 14,
) -> PhoneResult:
    """A result in which files take so long, with a little noise."""
    rng = np.random.default_rng(11)

    def trial(name: str, ms: float, *, identical: bool = False) -> PhoneTrial:
        runs = tuple(int(1e6 * ms * factor) for factor in rng.lognormal(0, 0.02, 30))
        return PhoneTrial(
            entry=name, identical=identical, load_ns=10_000_000, first_ns=runs[0], warmup_runs=3, latency_ns=runs,
            turn_runs=(10, 10, 10),
        )  # fmt: skip

    blocks = []
    for number in range(n_blocks):
        trials = [trial(name, ms) for name, ms in times_ms.items()]
        trials.append(trial(CPU, identical_ms or times_ms[CPU], identical=True))
        blocks.append(PhoneBlock(thermal=thermal[number] if thermal else 0, trials=tuple(trials)))
    return PhoneResult(
        schema=PHONE_SCHEMA,
        matrix=MATRIX,
        device="Acme Nine, Android 15",
        ort_version="1.31.0",
        entries=tuple(
            PhoneEntry(
                name=entry.name,
                error=(errors or {}).get(entry.name, ""),
                outputs=((outputs or {}).get(entry.name, output(1.0, 2.0)),),
            )
            for entry in MATRIX.entries
        ),
        blocks=tuple(blocks),
    )


def test_each_file_is_held_against_the_cpu(tmp_path: Path) -> None:
    found = phone.compared(result({CPU: 10.0, BASIC: 5.0, AWARE: 12.0}), tmp_path)
    first, second = found.candidates
    assert (first.side.label, second.side.label) == (BASIC, AWARE)
    assert first.comparison is not None and second.comparison is not None
    assert first.comparison.verdict == "faster" and second.comparison.verdict == "slower"
    assert 0.48 < first.comparison.ratio < 0.52 and first.comparison.n_blocks == 14
    assert [control.ok for control in found.controls] == [True]
    assert first.side.plan.providers[0].name == "NnapiExecutionProvider"
    assert found.base.label == CPU and not found.base.plan.providers
    assert first.outputs is not None and first.outputs.ok
    assert any("Acme Nine" in note for note in found.notes) and any(
        "qnn-basic" in note for note in found.notes
    )


def test_what_does_not_run_is_told_and_the_others_compared(tmp_path: Path) -> None:
    given = result({CPU: 10.0, BASIC: 5.0}, errors={AWARE: "OrtException: no kernel"})
    found = phone.compared(given, tmp_path)
    assert not found.candidates and found.new.label == BASIC
    assert any("no kernel" in note for note in found.notes)


def test_other_outputs_are_no_gain(tmp_path: Path) -> None:
    given = result({CPU: 10.0, BASIC: 5.0, AWARE: 10.0}, outputs={BASIC: output(9.0, 9.0, 9.0)})
    found = phone.compared(given, tmp_path)
    wrong = next(side for side in found.candidates if side.side.label == BASIC)
    assert wrong.comparison is None and wrong.outputs is not None and not wrong.outputs.ok
    assert found.new.label == AWARE


def test_blocks_of_a_hot_phone_do_not_count(tmp_path: Path) -> None:
    found = phone.compared(result({CPU: 10.0, BASIC: 5.0, AWARE: 10.0}, thermal=(3, 4, *[1] * 12)), tmp_path)
    assert found.comparison is not None and found.comparison.n_blocks == 12
    assert any("2 of 14 blocks" in note for note in found.notes)


def test_two_sessions_of_one_file_that_differ_give_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="A/A check"):
        phone.compared(result({CPU: 10.0, BASIC: 5.0, AWARE: 9.0}, identical_ms=11.0), tmp_path)


def test_one_file_alone_is_no_comparison(tmp_path: Path) -> None:
    errors = {BASIC: "no NNAPI", AWARE: "no NNAPI"}
    with pytest.raises(MeasurementError, match="fewer than two files") as caught:
        phone.compared(result({CPU: 10.0}, errors=errors), tmp_path)
    assert "no NNAPI" in caught.value.do


def test_the_command_reads_it_back(tmp_path: Path) -> None:
    path = tmp_path / "phone.json"
    path.write_bytes(msgspec.json.encode(result({CPU: 10.0, BASIC: 5.0, AWARE: 12.0})))
    code, text, said = program(["compare", str(path), "-v"])
    assert code == 0
    assert text.startswith("faster: 1.9") and "x in p50" in text
    assert "Acme Nine, Android 15" in text and "Acme Nine, Android 15" in said
    code, _, said = program(["compare", str(path), "other.onnx"])
    assert code == 2 and "all measured sides" in said


@pytest.mark.parametrize("damage", ["cut", "times", "names", "output"])
def test_a_damaged_result_is_one_error(tmp_path: Path, damage: str) -> None:
    given = result({CPU: 10.0, BASIC: 5.0, AWARE: 12.0}, n_blocks=7)
    data = msgspec.json.encode(given)
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "times":
        data = data.replace(b'"turn_runs":[10,10,10]', b'"turn_runs":[10,10,11]', 1)
    elif damage == "names":
        data = data.replace(b'"entry":"cpu"', b'"entry":"gpu"', 1)
    else:
        data = data.replace(b'"shape":[2]', b'"shape":[7]', 1)
    path = tmp_path / "phone.json"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"damaged|no result"):
        phone.compared(phone.read(path), tmp_path)


def test_another_json_is_no_result_of_a_phone(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"schema": "ortune/plan/1"}')
    assert not phone.is_phone_result(plan) and not phone.is_phone_result(tmp_path / "m.onnx")
