"""Whole sessions under one seed: compare, tune, diagnose and history on a simulated machine.

python tests/simulation/sessions.py FILE [--seeds 200]     writes what each seed gives, one line each
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ortune.errors import OrtuneError
from ortune.measuring.watcher import Watcher
from ortune.records import Comparison, Envelope, MadeRuntime
from ortune.runtimes import made
from ortune.runtimes.runtimes import probe
from ortune.verbs.compare import run as compare
from ortune.verbs.compare.result import CompareResult
from ortune.verbs.diagnose import run as diagnose
from ortune.verbs.diagnose.result import DiagnoseResult
from ortune.verbs.history import run as history
from ortune.verbs.history.result import HistoryResult
from ortune.verbs.tune import run as tune
from ortune.verbs.tune.result import TuneResult
from simulated_machine import Faults, Lab, Weather, net, tools_of

VERBS = ("compare", "tune", "diagnose", "compare", "tune", "history")
RELEASES = ("1.32.0", "1.31.1", "1.30.0")


@dataclass(kw_only=True)
class Session:
    """One session as it went.

    Attributes:
        envelope: The answer; None where it ended with an error.
        error: Its code.
    """

    verb: str
    lab: Lab
    budget_s: float
    began_s: float
    envelope: Envelope[Any] | None = None
    error: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def spent_s(self) -> float:
        """By the simulated clock."""
        return self.lab.now_s - self.began_s

    @property
    def comparisons(self) -> list[Comparison]:
        """Everything that the answer claims."""
        result = self.envelope.result if self.envelope else None
        if isinstance(result, CompareResult):
            pairs: list[Comparison | None] = [result.comparison]
        elif isinstance(result, TuneResult):
            refused = result.refused.comparison if result.refused else None
            pairs = [result.against_default, result.against_current, refused]
        elif isinstance(result, DiagnoseResult):
            pairs = [
                fix.comparison for fix in (*result.tried, *([result.together] if result.together else []))
            ]
        elif isinstance(result, HistoryResult):
            pairs = [result.whole, *(row.since_previous for row in result.rows)]
        else:
            pairs = []
        return [each for each in pairs if each is not None]

    def record(self) -> dict[str, Any]:
        """What a change of the house must not change: which groups ran, in which order, and what came of them."""
        orders = json.dumps([plans for _, _, plans in self.lab.groups])
        return {
            "verb": self.verb,
            "groups": len(self.lab.groups),
            "order": hashlib.sha256(orders.encode()).hexdigest()[:10],
            "verdict": self.envelope.verdict if self.envelope else None,
            "status": self.envelope.status if self.envelope else self.error,
            "budget_s": self.budget_s,
            "spent_s": round(self.spent_s, 3),
        }


def scenario(seed: int) -> tuple[str, float, Lab]:
    """The verb, the budget in seconds and the machine of a seed."""
    lab = Lab(seed)
    draw = lab.draw("scenario")
    lab.weather = Weather(
        process=float(draw.choice([0.004, 0.01, 0.03])),
        neighbour=float(draw.choice([1.0, 1.0, 1.6])),
        jumps=float(draw.choice([0.0, 0.0, 0.01])),
    )
    lab.faults = (
        Faults()
        if draw.random() < 0.5
        else Faults(crashes=0.02, hangs=0.005, late=0.02, lies=0.1, breaks=0.1)
    )
    lab.differ = bool(draw.random() < 0.7)
    budget_s = float(draw.choice([6.0, 25.0, 60.0, 120.0]))
    if draw.random() < 0.1:
        lab.faults = replace(lab.faults, disk_full_at=int(draw.integers(40)))
    return VERBS[seed % len(VERBS)], budget_s, lab


def run(
    seed: int,
    folder: Path,
    lab: Lab | None = None,
    resume: str | None = None,
    *,
    inputs: int | None = None,
    budget_s: float | None = None,
    sizes: Sequence[int] = (),
) -> Session:
    """One session, in a folder of its own or going on in that of another.

    Args:
        seed: Of everything.
        folder: Of model and store.
        lab: In place of the seed's own.
        resume: As ``--resume`` has it.
        inputs: As ``--seed`` has it: of the inputs and the orders; None is ``seed``. What a plan gives for inputs that
            another session had is known.
        budget_s: In place of the seed's own.
        sizes: Of the batch, which is then open.

    Raises:
        Killed: As the lab's faults have it.
    """
    verb, usual_s, own = scenario(seed)
    lab, budget_s = lab or own, budget_s or usual_s
    session = Session(verb=verb, lab=lab, budget_s=budget_s, began_s=lab.now_s)
    model, store = folder / "net.onnx", folder / "store"
    if not model.exists():
        net(folder, "n" if sizes else "1")
    common = {"store": store, "budget": budget_s, "runtime": sys.executable}
    common["seed"] = seed if inputs is None else inputs
    if sizes:
        common["dim"] = [f"n={','.join(map(str, sizes))}"]
    try:
        with tools_of(lab):
            watcher = Watcher(machine=lab.machine, say=session.lines.append)
            session.envelope = answer(verb, model, resume, common, watcher)
    except OrtuneError as error:
        session.error = error.code
        session.lines.append(str(error))
    return session


def answer(
    verb: str, model: Path, resume: str | None, common: dict[str, Any], watcher: Watcher
) -> Envelope[Any]:
    """What a verb says."""
    if verb == "compare":
        return compare.run(compare.Options(a=model, b_set=("opt=basic",), resume=resume, **common), watcher)
    if verb == "tune":
        return tune.run(tune.Options(model=model, bundle=False, resume=resume, **common), watcher)
    if verb == "diagnose":
        return diagnose.run(diagnose.Options(model=model, resume=resume, **common), watcher)
    del common["runtime"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made, "require_installed", release)
        return history.run(history.Options(model=model, release=RELEASES, resume=resume, **common), watcher)


def release(name: str, say: Callable[[str], None]) -> MadeRuntime:
    """What stands in the place of an environment with a release: this one, which answers the same."""
    runtime = msgspec.structs.replace(probe(sys.executable), ort_version=name.removeprefix("onnxruntime=="))
    return MadeRuntime(name=name, requirements=(name,), runtime=runtime)


def main() -> None:
    """Writes what each seed gives."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--inputs", type=int, help="as run has it")
    asked = parser.parse_args()
    with asked.file.open("w", encoding="utf-8") as file:
        for seed in range(asked.first, asked.first + asked.seeds):
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                session = run(seed, Path(folder), inputs=asked.inputs)
            print(json.dumps({"seed": seed, **session.record()}), file=file, flush=True)
            print(seed, session.record(), f"{time.monotonic() - began:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
