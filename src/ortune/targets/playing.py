"""Plays the processes of a recorded application together; all begin when the last process is ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ortune.records import Applied, Batch, Loaded, PlayDone, PlayRequest, Runtime, TrialError
from ortune.targets.node.player import NodePlayer
from ortune.targets.task import Limits
from ortune.targets.worker import POLL_LOADING_S, Worker


def play(
    requests: Sequence[PlayRequest],
    variables: Sequence[tuple[Applied, ...]],
    runtime: Runtime,
    folder: Path,
    scratch: Path,
    limits: Limits,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[PlayDone, ...] | TrialError | None:
    """Play an application once.

    Args:
        requests: The request of each process.
        variables: The environment variables of each process, in the same order.
        runtime: Runtime with the ONNX Runtime to use.
        folder: A new folder for the logs.
        scratch: Folder of this invocation.
        limits: Time and memory limits of each process.
        stop: Callback that is polled before the processes begin; True stops them.

    Returns:
        The results of all processes; the first error if any process failed; None if stopped.
    """
    workers: list[Worker] = []
    try:
        for number, (request, own) in enumerate(zip(requests, variables, strict=True)):
            place = folder / str(number)
            place.mkdir(parents=True)
            kind = Worker if runtime.node is None else NodePlayer
            worker = kind(runtime, place, scratch, limits)
            workers.append(worker)
            worker.open(own, ("play",))
            if worker.live:
                worker.send(request)
        loading = list(workers)
        while loading:
            loading = [
                worker for worker in loading if worker.live and not worker.follow(Loaded, POLL_LOADING_S)
            ]
            if stop():
                return None
        if all(worker.live for worker in workers):
            for worker in workers:
                worker.send(Batch(runs=1))
            for worker in workers:
                worker.follow(PlayDone)
    finally:
        for worker in workers:
            worker.close()
    ends = [worker.end for worker in workers]
    failed = next((end for end in ends if isinstance(end, TrialError)), None)
    return failed or tuple(end for end in ends if isinstance(end, PlayDone))
