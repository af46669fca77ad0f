"""One host of a Ray cluster, assigned to one measurement at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from ortune.assigned_host import HostLost
from ortune.cluster.process import ClusterProcess
from ortune.cluster.ray_cluster import RESOURCE, ClusterNode, RayCluster
from ortune.store.lock import holder_words

T = TypeVar("T")

CALL_S = 60.0
"""Seconds that a host may take to answer a call, in addition to the wait within the call."""
ENVIRONMENT_S = 900.0
"""Seconds that a host may take to install the packages of the job's ``runtime_env`` and to answer the first call."""
KEEP_S = 1800.0
"""Seconds that the transfer of a file may take."""
STREAM_BYTES = 16 << 20
"""Maximum bytes of a stream that one call returns; a host buffers less."""
CALLERS = 64
"""Maximum number of concurrent calls at a host: one per stream of each process of a block."""
_VARIABLES = {"ORT_DISABLE_TELEMETRY": "1", "OPENBLAS_NUM_THREADS": "1"}


class RayHost:
    """A host, from joining it until it is released or lost.

    Args:
        cluster: The cluster.
        node: The node.

    Attributes:
        speeds_ns: Durations of the fixed computation, before and after each measurement since ``take_speed_ns``.
    """

    def __init__(self, cluster: RayCluster, node: ClusterNode) -> None:
        self.node, self.python = node, f"ray:{node.name}"
        self._cluster, self._ray = cluster, cluster.ray
        self._lost = ""
        self._has: set[str] = set()
        self.speeds_ns: list[int] = []
        affinity = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)
        self.actor = (
            _remote_class(self._ray)
            .options(
                num_cpus=0, resources={RESOURCE: 1}, max_concurrency=CALLERS, scheduling_strategy=affinity
            )
            .remote()
        )

    def niceness(self) -> int:
        """Return the niceness of the processes on the host, after waiting until the host is free.

        Raises:
            HostLost: The host was not free in time, or does not answer.
        """
        limit_s = ENVIRONMENT_S if self._cluster.has_environment else CALL_S
        return self.call(int, self.actor.niceness, limit_s=limit_s)

    def start(self, arguments: Sequence[str], log: IO[bytes] | None) -> ClusterProcess:
        """Start the host's interpreter with these arguments."""
        number = self.call(int, self.actor.start, list(arguments), _VARIABLES)
        return ClusterProcess(_Calls(self, number), log)

    def keep(self, content: Path, digest: str, size_bytes: int) -> None:
        """Copy the file ``content`` into the host's cache, unless the cache has a file with this digest."""
        if digest in self._has:
            return
        if not self.call(bool, self.actor.has, digest):
            parts = self._cluster.objects.parts(content, digest, size_bytes, self.node.store_bytes)
            self.call(bool, self.actor.keep, digest, *parts, limit_s=KEEP_S)
        self._has.add(digest)

    def locked(self, what: str, budget_s: float | None) -> str:
        """Try to acquire the host's measuring lock; return "" on success, otherwise a description of its holder."""
        acquired, held, now_s = self.call(tuple[bool, bytes, float], self.actor.lock, what, budget_s)
        return "" if acquired else holder_words(held, now_s)

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Measure the host's speed before and after a ``with`` block, and release the lock at its end."""
        try:
            self.speeds_ns.append(self.call(int, self.actor.gauge))
            yield
            self.speeds_ns.append(self.call(int, self.actor.gauge))
        finally:
            with contextlib.suppress(HostLost):
                self.call(type(None), self.actor.unlock)

    def take_speed_ns(self) -> int:
        """Return the shortest duration of the fixed computation since the last call of this method; 0 if none ran."""
        shortest = min(self.speeds_ns, default=0)
        self.speeds_ns.clear()
        return shortest

    def require_alive(self) -> None:
        """Check that the host answers."""
        self.call(int, self.actor.niceness)

    def mark_lost(self, why: str) -> None:
        """Make all later calls fail with this reason."""
        self._lost = self._lost or why

    def release(self) -> None:
        """Release the host, which ends everything that runs there."""
        self.mark_lost("was released, as the command ended")
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(self.actor)

    def call(self, kind: type[T], method: Any, *arguments: Any, limit_s: float = CALL_S) -> T:
        """Call a method of ``actor`` and return its result, which must be of type ``kind``.

        Raises:
            HostLost: The call failed, returned nothing within ``limit_s``, or returned an invalid result.
        """
        if self._lost:
            raise HostLost(self._lost, where=self.python)
        errors, do = self._ray.exceptions, ""
        try:
            return msgspec.convert(self._ray.get(method.remote(*arguments), timeout=limit_s), kind)
        except errors.GetTimeoutError:
            why = f"did not answer within {limit_s:.0f} s"
        except errors.RayTaskError as error:
            why = f"cannot answer: {type(error.cause).__name__}: {error.cause}"
        except errors.ActorUnavailableError:
            why = "its connection broke"
        except errors.ActorDiedError:
            why = "its process of Ray ended"
        except errors.RuntimeEnvSetupError as error:
            why, do = (
                f"cannot set up the runtime_env of the job: {_last_line(str(error))}",
                "correct it there",
            )
        except errors.RayError as error:
            why = f"was lost: {' '.join(str(error).split())[:200]}"
        except msgspec.ValidationError as error:
            why = f"sent an answer that was refused: {error}"
        self.mark_lost(why)
        raise HostLost(why, where=self.python, do=do)


def _last_line(text: str) -> str:
    """Return the last line of a traceback, which has the reason."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "Ray gives no reason"


class _Calls:
    """Calls to one process of a host."""

    def __init__(self, host: RayHost, number: int) -> None:
        self._host, self._number = host, number

    def write(self, data: bytes) -> bool:
        return self._host.call(bool, self._host.actor.write, self._number, data)

    def close(self) -> None:
        self._host.call(type(None), self._host.actor.close, self._number)

    def read(self, wait_s: float) -> tuple[bytes, bytes, int | None]:
        output, log, code = self._host.call(
            tuple[bytes, bytes, int | None],
            self._host.actor.read,
            self._number,
            wait_s,
            limit_s=wait_s + CALL_S,
        )
        if max(len(output), len(log)) > STREAM_BYTES:
            self._host.mark_lost("sent more than any host holds")
            return b"", b"", -9
        return output, log, code

    def kill(self) -> None:
        self._host.call(type(None), self._host.actor.kill, self._number)


@cache
def _remote_class(ray: Any) -> Any:
    """Return the class of the actor on a host; its source is sent, since ortune may not be installed there."""
    from ray import cloudpickle

    import ortune.worker
    from ortune.worker import cluster_host

    cloudpickle.register_pickle_by_value(ortune.worker)
    return ray.remote(cluster_host.ClusterHost)
