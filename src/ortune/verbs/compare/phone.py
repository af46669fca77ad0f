"""Converts the result of a bench on a phone to a comparison, judged like one measured on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from ortune import files
from ortune.catalogue.providers import CPU, of_target
from ortune.errors import MeasurementError, UsageError
from ortune.inputs.value_files import write_outputs
from ortune.outputs.comparison import compare_outputs
from ortune.records import (
    Block,
    BlockTrial,
    CaseTimes,
    Comparison,
    MatrixEntry,
    Measured,
    ModelInfo,
    OutputDifference,
    Plan,
    ProviderSpec,
    Runtime,
    Side,
    TrialDone,
    read_json,
)
from ortune.search.blocks import BASE, IDENTICAL, LETTERS, measured
from ortune.search.figures import describe
from ortune.search.guards import guards
from ortune.verbs.compare import phone_words
from ortune.verbs.compare.given_blocks import judged
from ortune.verbs.compare.phone_result import (
    PHONE_SCHEMA,
    PhoneBlock,
    PhoneEntry,
    PhoneOutput,
    PhoneResult,
    PhoneTrial,
)
from ortune.verbs.compare.result import ComparedSide, CompareResult

SLOWED_DOWN = 3
"""Lowest thermal status at which the phone reduces its speed."""
MOST_BYTES = 1 << 30
_STATISTIC = "median"
_TYPES = {
    "FLOAT": np.float32, "DOUBLE": np.float64, "FLOAT16": np.float16, "INT8": np.int8, "UINT8": np.uint8,
    "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "BOOL": np.bool_,
}  # fmt: skip


def is_phone_result(path: Path) -> bool:
    """Return whether a file contains the result of a bench on a phone."""
    if path.suffix != ".json" or not files.is_file(path):
        return False
    with path.open("rb") as file:
        return PHONE_SCHEMA.encode() in file.read(64)


def read(path: Path) -> PhoneResult:
    """Read the result of a bench on a phone.

    Raises:
        UsageError: The file cannot be read, or is inconsistent.
    """
    do = "run the phone bench again and copy its complete phone.json"
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError("is too large to be a phone bench result", where=str(path), do=do)
        result = read_json(path.read_bytes(), PhoneResult)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"is not a phone bench result: {error}", where=str(path), do=do) from error
    names = [entry.name for entry in result.matrix.entries]
    trials = [trial for block in result.blocks for trial in block.trials]
    sound = (
        len({*names}) == len(names)
        and [entry.name for entry in result.entries] == names
        and len(names) <= len(LETTERS)
        and all(trial.entry in names and _is_sound(trial) for trial in trials)
    )
    if not sound:
        raise UsageError("is damaged: its files and times do not match", where=str(path), do=do)
    return result


def _is_sound(trial: PhoneTrial) -> bool:
    counts = sum(trial.turn_runs) == len(trial.latency_ns) > 0
    # A file from elsewhere: a time of 0 would be an infinite ratio.
    return counts and min(*trial.latency_ns, *trial.turn_runs, trial.load_ns, trial.first_ns) > 0


def compared(result: PhoneResult, scratch: Path) -> CompareResult:
    """Compare the files of a phone bench with the first file that ran.

    Args:
        result: The result, as read.
        scratch: Folder for outputs during the comparison.

    Raises:
        MeasurementError: Fewer than two files ran, or the first file's second session differed from its first.
    """
    entries = {entry.name: entry for entry in result.matrix.entries}
    running = [entry for entry in result.entries if not entry.error]
    if len(running) < 2 or not result.blocks:
        errors = "; ".join(f"{entry.name}: {entry.error}" for entry in result.entries if entry.error)
        raise MeasurementError(
            f"fewer than two files ran on {result.device}",
            do=f"The bench reported: {errors}" if errors else "",
        )
    base, *news = running
    arms = dict(zip([arm for arm in LETTERS if arm != BASE], news, strict=False))
    names = {base.name: BASE} | {entry.name: arm for arm, entry in arms.items()}
    blocks = [_block(number, block, names) for number, block in enumerate(result.blocks)]
    comparisons, control = judged(tuple(arms), blocks, _STATISTIC)
    if not control.ok:
        raise MeasurementError(
            f"invalid: the A/A check on {result.device} failed, because two sessions of {base.name} differ",
            do="let the phone cool down, close other apps, and run the bench again",
        )
    sides = [
        _side(result, entries, blocks, arm, entry, comparisons.get(arm), _difference(base, entry, scratch))
        for arm, entry in arms.items()
    ]
    sides.sort(key=lambda side: side.comparison.ratio if side.comparison else float("inf"))
    first = sides[0]
    assert first.outputs is not None
    base_trials = measured(blocks, BASE)
    return CompareResult(
        base=_record(entries[base.name], result),
        new=first.side,
        comparison=first.comparison,
        outputs=first.outputs,
        base_figures=describe(base_trials, _STATISTIC) if base_trials else None,
        new_figures=first.figures,
        controls=(control,),
        notes=tuple(_notes(result, blocks)),
        name=first.name,
        candidates=tuple(sides) if len(sides) > 1 else (),
    )


def _notes(result: PhoneResult, blocks: Sequence[Block]) -> list[str]:
    notes = [phone_words.how_measured(result.device)]
    hot = sum(block.dropped == phone_words.HOT for block in blocks)
    if hot:
        notes.append(phone_words.excluded(hot, len(blocks)))
    notes += [phone_words.did_not_run(entry.name, entry.error) for entry in result.entries if entry.error]
    return notes + [phone_words.not_included(text) for text in result.matrix.left_out]


def _side(
    result: PhoneResult,
    entries: dict[str, MatrixEntry],
    blocks: Sequence[Block],
    arm: str,
    entry: PhoneEntry,
    comparison: Comparison | None,
    outputs: OutputDifference,
) -> ComparedSide:
    trials = measured(blocks, arm)
    if comparison is not None:
        comparison = msgspec.structs.replace(comparison, guards=guards(blocks, "latency", arm=arm))
    return ComparedSide(
        name=LETTERS[arm],
        side=_record(entries[entry.name], result),
        comparison=comparison if outputs.comparable else None,
        outputs=outputs,
        figures=describe(trials, _STATISTIC) if trials else None,
    )


def _record(entry: MatrixEntry, result: PhoneResult) -> Side:
    """Return the record of one file of the set as a side of the comparison."""
    name = of_target(entry.provider).name
    providers = () if entry.provider == CPU.target or not name else (ProviderSpec(name=name),)
    return Side(
        label=entry.name,
        model=ModelInfo(path=entry.file, format="ort", sha256=entry.sha256, size_bytes=0),
        plan=Plan(providers=providers),
        runtime=Runtime(python="", ort_version=result.ort_version, origin=result.device),
    )


def _block(number: int, block: PhoneBlock, names: dict[str, str]) -> Block:
    return Block(
        index=number,
        phase="race",
        trials=tuple(
            BlockTrial(arm=IDENTICAL if trial.identical else names[trial.entry], outcome=_outcome(trial))
            for trial in block.trials
            if trial.entry in names
        ),
        dropped=phone_words.HOT if block.thermal >= SLOWED_DOWN else "",
    )


def _outcome(trial: PhoneTrial) -> Measured:
    times = CaseTimes(
        case="phone",
        weight=1.0,
        latency_ns=trial.latency_ns,
        first_ns=trial.first_ns,
        warmup_runs=trial.warmup_runs,
        turn_runs=trial.turn_runs,
    )
    done = TrialDone(
        load_ns=trial.load_ns,
        cases=(times,),
        cpu_ns=0,  # a phone does not report CPU time
        wall_ns=sum(trial.latency_ns),
        n_runs=len(trial.latency_ns),
    )
    return Measured(plan="", done=done)


def _difference(base: PhoneEntry, entry: PhoneEntry, scratch: Path) -> OutputDifference:
    folders = [scratch / f"outputs-{number}" for number in range(2)]
    for folder, side in zip(folders, (base, entry), strict=True):
        write_outputs(folder, ((out.name, out.type.lower(), _array(out)) for out in side.outputs))
    return compare_outputs(*folders)


def _array(output: PhoneOutput) -> np.ndarray:
    try:
        return np.frombuffer(output.data, _TYPES[output.type]).reshape(output.shape)
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"the output {output.name!r} is damaged: {error}", do="run the bench again"
        ) from error
