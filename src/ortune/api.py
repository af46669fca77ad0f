"""One function a verb, with the names and the values of the command line.

Times, shares and sizes may be written as there ("2m", "5%", "512m") or as plain numbers of seconds, shares and bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ortune.records import Envelope

if TYPE_CHECKING:
    from ortune.flows.compare_options import Watcher

AnyPath = str | Path


def compare(
    a: AnyPath,
    b: AnyPath | None = None,
    *,
    set: Sequence[str] = (),
    a_set: Sequence[str] = (),
    b_set: Sequence[str] = (),
    rewrite: Sequence[str] = (),
    b_rewrite: Sequence[str] = (),
    plan: AnyPath | None = None,
    python: AnyPath | None = None,
    a_python: AnyPath | None = None,
    b_python: AnyPath | None = None,
    target: str = "cpu",
    shape: Sequence[str] = (),
    dim: Sequence[str] = (),
    inputs: AnyPath | None = None,
    workload: AnyPath | None = None,
    save_workload: AnyPath | None = None,
    map: Sequence[str] = (),
    custom_ops: Sequence[AnyPath] = (),
    objective: str = "latency",
    gap: str | float = 0,
    sessions: int = 1,
    callers: int = 1,
    cpus: float | None = None,
    memory: str | int | None = None,
    tolerance: float | None = None,
    budget: str | float = "2m",
    max_blocks: int | None = None,
    inject_wait: str | float | None = None,
    seed: int = 0,
    no_wait: bool = False,
    threshold: str | float | None = None,
    undecided: str = "pass",
    store: AnyPath | None = None,
    watcher: Watcher | None = None,
) -> Envelope:
    """Is B faster than A on this machine?

    The arguments are those of ``ortune compare --help``; ``watcher`` is told what happens meanwhile.

    Returns:
        The whole document; ``result`` is a CompareResult.

    Raises:
        OrtuneError: Nothing could be compared.
    """
    given = dict(locals())
    from ortune.errors import UsageError
    from ortune.flows import asked
    from ortune.flows.compare import compare as run
    from ortune.flows.compare_options import Options

    if undecided not in ("pass", "fail"):
        raise UsageError(f"{undecided!r} is neither pass nor fail", where="--undecided")
    options = Options(
        a=str(a),
        b=None if b is None else str(b),
        settings=set,
        a_set=a_set,
        b_set=b_set,
        rewrites=rewrite,
        b_rewrites=b_rewrite,
        plan=asked.path(plan),
        python=None if python is None else str(python),
        a_python=None if a_python is None else str(a_python),
        b_python=None if b_python is None else str(b_python),
        target=target,
        objective=objective,
        inputs=asked.inputs(given),
        map_inputs=asked.pairs(map, "--map"),
        budget_s=asked.seconds(budget, "--budget"),
        max_blocks=max_blocks,
        seed=seed,
        store=asked.path(store),
        wait=not no_wait,
        threshold=asked.share(threshold, "--threshold"),
        undecided="fail" if undecided == "fail" else "pass",
        inject_wait=asked.share(inject_wait, "--inject-wait") or 0.0,
    )
    return run(options, watcher)


def tune(
    model: AnyPath,
    *,
    set: Sequence[str] = (),
    rewrite: Sequence[str] = (),
    plan: AnyPath | None = None,
    current: str | None = None,
    python: AnyPath | None = None,
    target: str = "cpu",
    shape: Sequence[str] = (),
    dim: Sequence[str] = (),
    inputs: AnyPath | None = None,
    workload: AnyPath | None = None,
    save_workload: AnyPath | None = None,
    custom_ops: Sequence[AnyPath] = (),
    objective: str = "latency",
    gap: str | float = 0,
    sessions: int = 1,
    callers: int = 1,
    cpus: float | None = None,
    memory: str | int | None = None,
    tolerance: float | None = None,
    budget: str | float = "3m",
    worth: str | float = "1%",
    allow: Sequence[str] = (),
    seed: int = 0,
    no_wait: bool = False,
    resume: str | None = None,
    output: AnyPath = ".",
    bundle: bool = True,
    force: bool = False,
    store: AnyPath | None = None,
    watcher: Watcher | None = None,
) -> Envelope:
    """The fastest correct way to run a model on this machine, proven.

    The arguments are those of ``ortune tune --help``; ``watcher`` is told what happens meanwhile.

    Returns:
        The whole document; ``result`` is a TuneResult.

    Raises:
        OrtuneError: Nothing could be tuned.
    """
    given = dict(locals())
    from ortune.flows import asked
    from ortune.flows.deliver import tune_and_deliver
    from ortune.flows.tune_options import Options

    options = Options(
        model=str(model),
        settings=set,
        rewrites=rewrite,
        plan=asked.path(plan),
        current=current,
        python=None if python is None else str(python),
        target=target,
        objective=objective,
        inputs=asked.inputs(given),
        budget_s=asked.seconds(budget, "--budget"),
        worth=asked.share(worth, "--worth") or 0.0,
        allow=allow,
        seed=seed,
        store=asked.path(store),
        wait=not no_wait,
        resume=resume,
        directory=Path(output) if bundle else None,
        force=force,
    )
    return tune_and_deliver(options, watcher)


def doctor(
    model: AnyPath | None = None,
    *,
    python: AnyPath | None = None,
    measure: bool = True,
    shape: Sequence[str] = (),
    dim: Sequence[str] = (),
    inputs: AnyPath | None = None,
    custom_ops: Sequence[AnyPath] = (),
    no_wait: bool = False,
    store: AnyPath | None = None,
    watcher: Watcher | None = None,
) -> Envelope:
    """What this machine can run, and the smallest difference that it can show.

    The arguments are those of ``ortune doctor --help``; ``watcher`` is told what happens meanwhile.

    Returns:
        The whole document; ``result`` is a DoctorResult.

    Raises:
        OrtuneError: The interpreter or the model named cannot be used.
    """
    given = dict(locals())
    rest = {"workload": None, "save_workload": None, "cpus": None, "memory": None, "gap": 0}
    from ortune.flows import asked
    from ortune.flows.doctor import Options
    from ortune.flows.doctor import doctor as run

    options = Options(
        model=None if model is None else str(model),
        python=None if python is None else str(python),
        measure=measure,
        inputs=asked.inputs(given | rest | {"sessions": 1, "callers": 1, "seed": 0, "tolerance": None}),
        wait=not no_wait,
        store=asked.path(store),
    )
    return run(options, watcher)
