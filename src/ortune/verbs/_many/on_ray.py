"""The hosts of a Ray cluster as a fleet: discovery of the hosts and their kinds, and one thread per running model."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ortune import assigned_host, monotonic
from ortune.assigned_host import HostLost
from ortune.cluster.ray_cluster import RESOURCE, ClusterNode, RayCluster, joined
from ortune.cluster.ray_host import RayHost
from ortune.errors import Interrupted, OrtuneError, UsageError
from ortune.measuring.watcher import Watcher
from ortune.records import Runtime
from ortune.targets.named_runtimes import find
from ortune.verbs._many import words
from ortune.verbs._many.batch import ModelBatch
from ortune.verbs._many.executor import Done, Job, run_one
from ortune.verbs._many.fleet import Event, Fleet, HostJoined, JobEnded, LostHost
from ortune.verbs._shared.attempt import result_or_error
from ortune.verbs._shared.hosts import HostOption, address, labels
from ortune.verbs._shared.spelling import named

LOOK_S = 5.0
"""Seconds between two reads of the cluster's list of nodes."""
LEAVE_S = 10.0
"""Maximum wait in seconds for the threads of running jobs when the fleet is closed."""


@dataclass(frozen=True, kw_only=True)
class _Ready:
    """A host that was examined.

    Attributes:
        found: The host's runtime, or the error that prevents its use.
        niceness: Niceness of the processes on the host.
    """

    host: RayHost
    found: Runtime | OrtuneError
    niceness: int = 0


@contextlib.contextmanager
def fleet(batch: ModelBatch, watcher: Watcher) -> Iterator[tuple[ModelBatch, Fleet]]:
    """Join the cluster; yield the batch with the kinds of hosts as its ``hosts``, and an executor for these kinds.

    Raises:
        UsageError: There is no such cluster, it has no usable host, or a selection matches no host.
    """
    with joined(address(str(batch.values["on"]))) as cluster:
        runtime = named(batch.values.get("runtime"))
        hosts = RayHosts(cluster, tuple(batch.values.get("hosts") or ()), runtime, watcher)
        try:
            kinds = hosts.kinds()
            watcher.say(
                words.joined(cluster.version, hosts.n_used, [kind.name for kind in kinds], cluster.dashboard)
            )
            yield replace(batch, hosts=kinds), Fleet(hosts)
        finally:
            hosts.close()


class RayHosts:
    """The selected hosts of a Ray cluster.

    Args:
        cluster: The cluster.
        selections: Values of ``--hosts``; () for all hosts.
        runtime: ONNX Runtime release that is sent to each host; None for the release that is installed on the host.
        watcher: Receives sentences about hosts.
    """

    def __init__(
        self, cluster: RayCluster, selections: tuple[str, ...], runtime: str | None, watcher: Watcher
    ) -> None:
        self._cluster, self._runtime, self._watcher = cluster, runtime, watcher
        self._selections = {text: labels(text) for text in selections} or {"": {}}
        self._kinds: dict[tuple[str, str], str] = {}  # by selection and machine
        self._nodes: dict[str, RayHost] = {}  # by the identifier in Ray
        self._used: dict[str, RayHost] = {}  # by name
        self._busy: dict[str, threading.Thread] = {}
        self._came: queue.Queue[Event | _Ready | Callable[[], None]] = queue.Queue()
        self._first: list[Event] = []  # events that the next ``wait`` returns
        self._refused: set[str] = set()
        self._stopping = threading.Event()
        self._looked_s = 0.0

    @property
    def n_used(self) -> int:
        """Number of hosts in use."""
        return len(self._used)

    def kinds(self) -> tuple[HostOption, ...]:
        """Examine all hosts and return their kinds; the hosts of a kind are equal machines with the same selection.

        Raises:
            UsageError: No host can be used, a selection matches no host, or two kinds would have the same name.
        """
        self._look()
        if not self._nodes:
            raise UsageError(
                f"the cluster has no such node with the resource {RESOURCE!r}",
                where=" ".join(["--on ray", *(f"--hosts {text}" for text in self._selections if text)]),
                do="""start nodes with `ray start --address ... --resources '{"ortune": 1}' --labels KEY=VALUE`""",
            )
        ready = [self._next_ready() for _ in range(len(self._nodes))]
        usable = [one for one in ready if isinstance(one.found, Runtime)]
        for one in ready:
            if isinstance(one.found, OrtuneError):
                self._refuse(one.host, one.found)
        if not usable:
            error = next(one.found for one in ready if isinstance(one.found, OrtuneError))
            raise UsageError(
                f"no host of the cluster can be used: {error.what}", where=error.where, do=error.do
            )
        machines: dict[str, set[str]] = {text: set() for text in self._selections}
        for one in usable:
            selection, machine = self._kind(one)
            machines[selection].add(machine)
        options = []
        for text, found in machines.items():
            if not found:
                raise UsageError(
                    "no host of the cluster that can be used has these labels",
                    where=f"--hosts {text}",
                    do="omit the option, or start nodes with these labels",
                )
            name = "-".join(self._selections[text].values()) or "ray"
            if any(name == "-".join(other.values()) for t, other in self._selections.items() if t != text):
                raise UsageError(
                    f"two kinds of hosts would be called {name}",
                    where=f"--hosts {text}",
                    do="use other labels",
                )
            for number, machine in enumerate(sorted(found), start=1):
                unique = name if len(found) == 1 else f"{name}-{number}"
                self._kinds[text, machine] = unique
                options.append(HostOption(name=unique, labels=text))
        for one in usable:
            self._use(one)
        return tuple(options)

    def start(self, host: str, number: int, job: Job, watcher: Watcher) -> None:
        """Start a job in a new thread."""
        thread = threading.Thread(
            target=self._run, args=(self._used[host], host, number, job, watcher), daemon=True
        )
        self._busy[host] = thread
        thread.start()

    def wait(self, limit_s: float) -> Sequence[Event]:
        """Return the next events as soon as there are any; empty after ``limit_s`` seconds.

        The messages of job threads are passed to the watcher here, in the caller's thread.
        """
        deadline_s = monotonic.now_s() + limit_s
        while not self._first and (left_s := deadline_s - monotonic.now_s()) > 0:
            if monotonic.now_s() - self._looked_s > LOOK_S:
                self._look()
                continue
            with contextlib.suppress(queue.Empty):
                came = self._came.get(timeout=left_s)
                if isinstance(came, _Ready):
                    self._take(came)
                elif callable(came):
                    came()
                else:
                    self._first.append(came)
        events, self._first = self._first, []
        for event in events:
            self._note(event)
        return events

    def stop(self) -> None:
        """Request that running jobs end early."""
        self._stopping.set()

    def close(self) -> None:
        """Stop running jobs, release all hosts, and wait at most ``LEAVE_S`` seconds for the threads."""
        self._stopping.set()
        for host in self._nodes.values():
            host.release()
        deadline_s = monotonic.now_s() + LEAVE_S
        for thread in self._busy.values():
            thread.join(max(0.0, deadline_s - monotonic.now_s()))

    def _look(self) -> None:
        """Read the list of nodes: examine new nodes in threads, and queue an event for each node that left."""
        self._looked_s = monotonic.now_s()
        try:
            nodes = {node.id: node for node in self._cluster.nodes() if self._selection(node) is not None}
        except ConnectionError:
            return  # calls to the hosts show whether they are reachable
        for node_id in self._nodes.keys() - nodes.keys():
            host = self._nodes[node_id]
            host.mark_lost(words.LEFT_CLUSTER)
            if host.node.name not in self._busy:
                self._first.append(LostHost(host=host.node.name, why=words.LEFT_CLUSTER))
                self._nodes.pop(node_id)
        for node_id in nodes.keys() - self._nodes.keys():
            host = self._nodes[node_id] = RayHost(self._cluster, nodes[node_id])
            threading.Thread(target=self._prepare, args=(host,), daemon=True).start()

    def _selection(self, node: ClusterNode) -> str | None:
        """Return the first selection that matches a node's labels; None if no selection matches."""
        for text, wanted in self._selections.items():
            if wanted.items() <= node.labels.items():
                return text
        return None

    def _kind(self, ready: _Ready) -> tuple[str, str]:
        """Return the kind of a usable host as its selection and a text that is equal for equal machines."""
        selection, runtime = self._selection(ready.host.node), ready.found
        assert selection is not None and isinstance(runtime, Runtime) and runtime.host is not None
        host = runtime.host
        machine = f"{host.effective_cpus:05d}", host.cpu, runtime.build, host.fingerprint
        return selection, " ".join(machine)

    def _prepare(self, host: RayHost) -> None:
        """Examine a host and queue the result; called in a separate thread."""
        assigned_host.assigned.set(host)
        ready = result_or_error(partial(self._examined, host), self._say_later)
        if isinstance(ready, HostLost):
            ready.do = ready.do or words.MAY_BE_IN_USE
        self._came.put(_Ready(host=host, found=ready) if isinstance(ready, OrtuneError) else ready)

    def _examined(self, host: RayHost) -> _Ready:
        """Find the runtime of a host, or send the named release to the host."""
        niceness = host.niceness()
        return _Ready(host=host, found=find(self._runtime, self._say_later), niceness=niceness)

    def _say_later(self, sentence: str) -> None:
        """Queue a sentence, which ``wait`` passes to the watcher in the caller's thread."""
        self._came.put(partial(self._watcher.say, sentence))

    def _next_ready(self) -> _Ready:
        while True:
            came = self._came.get()
            if isinstance(came, _Ready):
                return came
            if callable(came):
                came()

    def _take(self, ready: _Ready) -> None:
        """Use a host that joined later if its kind existed at the start; otherwise release the host."""
        if isinstance(ready.found, OrtuneError):
            self._refuse(ready.host, ready.found)
        elif self._kind(ready) in self._kinds:
            self._use(ready)
        else:
            assert ready.found.host is not None
            self._watcher.say(words.of_no_kind(ready.host.node.name, words.machine(ready.found.host)))
            ready.host.release()

    def _use(self, ready: _Ready) -> None:
        name = ready.host.node.name
        assert isinstance(ready.found, Runtime)
        if ready.niceness > 0:
            self._watcher.say(words.niced(name, ready.niceness))
        self._used[name] = ready.host
        self._first.append(HostJoined(host=name, kind=self._kinds[self._kind(ready)]))

    def _refuse(self, host: RayHost, error: OrtuneError) -> None:
        """Release a host that cannot be used, and report the reason once.

        After ``HostLost`` the host is examined again when it returns.
        """
        name = host.node.name
        if name not in self._refused:
            self._refused.add(name)
            what = f"{error.what} -> {error.do}" if error.do else error.what
            self._watcher.say(words.unusable(name, what))
        host.release()
        if isinstance(error, HostLost):
            self._nodes.pop(host.node.id, None)

    def _note(self, event: Event) -> None:
        """Update the running jobs and used hosts after an event."""
        if isinstance(event, JobEnded):
            self._busy.pop(event.host, None)
            if isinstance(event.answer, HostLost):
                host = self._used.pop(event.host, None)
                if host is not None:
                    host.release()
                    self._nodes.pop(host.node.id, None)  # a node that is only disconnected may come back

    def _run(self, host: RayHost, name: str, number: int, job: Job, watcher: Watcher) -> None:
        """Run a job and queue its ``JobEnded`` event; called in a separate thread."""
        assigned_host.assigned.set(host)
        host.take_speed_ns()
        told = replace(
            watcher,
            say=lambda sentence: self._came.put(partial(watcher.say, f"{job.label}: {sentence}")),
            step=lambda step: None,
            stop=self._stopping.is_set,
            begin=lambda: None,
        )
        try:
            done = run_one(job, told)
        except KeyboardInterrupt as stopped:
            done = Done(job=job, answer=Interrupted(str(stopped)), spent_s=0.0)
        answer = done.answer
        if not isinstance(answer, HostLost):
            try:
                host.require_alive()
            except HostLost as lost:  # the lost host may have affected the answer
                answer = lost
        speed_ns = 0 if isinstance(answer, HostLost) else host.take_speed_ns()
        self._came.put(
            JobEnded(host=name, number=number, answer=answer, spent_s=done.spent_s, speed_ns=speed_ns)
        )
