"""The verbs that answer with figures of their own: compare, tune, bench."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ortune.records import Envelope

if TYPE_CHECKING:
    from ortune.trials.watcher import Watcher

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
    no_why: bool = False,
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
    from ortune.verbs import option_parsing as asked
    from ortune.verbs.compare import compare as run
    from ortune.verbs.compare_options import Options

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
        why=not no_why,
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
    from ortune.verbs import option_parsing as asked
    from ortune.verbs.deliver import tune_and_deliver
    from ortune.verbs.tune_options import Options

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


def bench(
    model: AnyPath,
    *,
    set: Sequence[str] = (),
    rewrite: Sequence[str] = (),
    plan: AnyPath | None = None,
    python: AnyPath | None = None,
    target: str = "cpu",
    shape: Sequence[str] = (),
    dim: Sequence[str] = (),
    inputs: AnyPath | None = None,
    workload: AnyPath | None = None,
    save_workload: AnyPath | None = None,
    custom_ops: Sequence[AnyPath] = (),
    gap: str | float = 0,
    sessions: int = 1,
    callers: int = 1,
    shared_pool: bool = False,
    shared_arena: bool = False,
    cpus: float | None = None,
    memory: str | int | None = None,
    processes: int | None = None,
    runs: int | None = None,
    budget: str | float = "20s",
    seed: int = 0,
    no_wait: bool = False,
    store: AnyPath | None = None,
    watcher: Watcher | None = None,
) -> Envelope:
    """How long a model takes with one plan: latency and its tails, throughput, load time, memory, CPU time.

    The arguments are those of ``ortune bench --help``; ``watcher`` is told what happens meanwhile.

    Returns:
        The whole document; ``result`` is a BenchResult.

    Raises:
        OrtuneError: Nothing could be measured.
    """
    given = dict(locals())
    from ortune.verbs import option_parsing as asked
    from ortune.verbs.bench import bench as run
    from ortune.verbs.bench_options import Options

    options = Options(
        model=str(model),
        settings=set,
        rewrites=rewrite,
        plan=asked.path(plan),
        python=None if python is None else str(python),
        target=target,
        inputs=asked.inputs(given | {"tolerance": None}),
        shared_pool=shared_pool,
        shared_arena=shared_arena,
        processes=processes,
        runs=runs,
        budget_s=asked.seconds(budget, "--budget"),
        store=asked.path(store),
        wait=not no_wait,
    )
    return run(options, watcher)
