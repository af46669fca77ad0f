"""A simulated cluster: nodes come and go, answers arrive twice or late, and the driver is killed. One seed, no clock.

It replaces ``RayHosts``. The fleet, the driver of many models, the journal and the store are the real ones.
"""

from __future__ import annotations

import gc
import heapq
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

import golden_answers
from ortune.assigned_host import HostLost
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope
from ortune.verbs._many.executor import Job
from ortune.verbs._many.fleet import Event, HostJoined, JobEnded, LostHost


class DriverKilled(BaseException):
    """The process of the driver is gone."""


@dataclass(frozen=True, kw_only=True)
class Weather:
    """What goes wrong.

    Attributes:
        run_s: Shortest and longest time of a model on a node; a bench takes a minute, a search half an hour.
        life_s: Mean time until a node is preempted; another one comes within ten minutes.
        slow_share: Of nodes, those that take three times as long.
        bad_share: Of nodes, those that give no valid measurement.
        twice_share: Of answers, those that arrive a second time, up to an hour later.
        late_share: Of the answers of lost nodes, those that arrive after all.
        transfer_s: The longest time that a model takes to reach a node.
    """

    run_s: tuple[float, float] = (20.0, 120.0)
    life_s: float = 6 * 3600.0
    slow_share: float = 0.02
    bad_share: float = 0.01
    twice_share: float = 0.05
    late_share: float = 0.3
    transfer_s: float = 300.0


@dataclass(kw_only=True)
class Node:
    """A node with a clock of its own, which nobody may read."""

    name: str
    kind: str
    slow: bool
    bad: bool
    job: tuple[int, Job] | None = None


@dataclass
class World:
    """What goes on whether or not a driver is there.

    Attributes:
        now_s: The time.
        models: Their numbers, by path.
        misbehaving: Nodes that are slow or give no valid measurement, whether they still exist or not.
        aside: Hosts that the driver has set aside.
        most_running, most_documents: The most jobs at once, and the most documents in memory.
    """

    seed: int
    kinds: Sequence[str]
    n_nodes: int = 1
    weather: Weather = field(default_factory=Weather)
    n_models: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.now_s = 0.0
        self.nodes: dict[str, Node] = {}
        self.models: dict[str, int] = {}
        self.aside: dict[str, str] = {}
        self.misbehaving: set[str] = set()
        self.n_lost = self.most_documents = self.most_running = 0
        self._numbers = itertools.count()
        self._coming: list[tuple[float, int, Any]] = []
        for i in range(self.n_nodes):
            self.add(self.kinds[i % len(self.kinds)])

    def later(self, after_s: float, what: Any) -> None:
        """Let something happen."""
        heapq.heappush(self._coming, (self.now_s + after_s, next(self._numbers), what))

    def next_before(self, end_s: float) -> Any:
        """Return what happens next, and move the clock there; None if nothing does until then."""
        if not self._coming or self._coming[0][0] > end_s:
            self.now_s = end_s
            return None
        self.now_s, _, what = heapq.heappop(self._coming)
        return what

    def mark(self, model: str, kind: str) -> float:
        """Return the latency of a model on a kind of host; no two are equal."""
        return 1e6 + 1000.0 * self.models[model] + self.kinds.index(kind)

    def answer(self, node: Node, job: Job) -> Envelope[Any]:
        """Return the document of a measurement, which carries where it was made and of what."""
        row = golden_answers.row(median_ns=golden_answers.estimate(self.mark(job.model, node.kind)))
        if not node.bad:
            return golden_answers.document(row)
        return msgspec.structs.replace(golden_answers.document(row), verdict="invalid")

    def add(self, kind: str) -> Node:
        """Return a new node."""
        rng, w = self.rng, self.weather
        life_s = rng.expovariate(1 / w.life_s)
        node = Node(
            name=f"n{next(self._numbers)}",
            kind=kind,
            slow=rng.random() < w.slow_share,
            bad=rng.random() < w.bad_share,
        )
        self.nodes[node.name] = node
        if node.slow or node.bad:
            self.misbehaving.add(node.name)
        self.later(life_s, ("preempted", node))
        return node

    def end(self, node: Node, after_s: float) -> None:
        """Let a node end, without another in its place."""
        self.later(after_s, ("ended", node))


class SimulatedHosts:
    """The cluster as one driver sees it.

    Args:
        world: The nodes.
        dies_s: When the driver is killed; None if it is not.
    """

    def __init__(self, world: World, dies_s: float | None) -> None:
        self.world, self.dies_s = world, dies_s
        self._joined: list[Event] = [HostJoined(host=n.name, kind=n.kind) for n in world.nodes.values()]
        self._running: dict[tuple[str, str], str] = {}  # by model and kind, the host
        self._n_events = 0
        for node in world.nodes.values():
            node.job = None  # what a driver before this one began has ended with it

    def start(self, host: str, number: int, job: Job, watcher: Watcher) -> None:
        world, node = self.world, self.world.nodes.get(host)
        if node is None:  # it went a moment ago, which the driver does not know yet
            world.later(1.0, (self, JobEnded(host=host, number=number, answer=HostLost("gone"), spent_s=0.0)))
            return
        assert node.job is None, "two jobs on one host"
        assert node.kind == job.host, "a job on a host of another kind"
        assert host not in world.aside, "a job on a host that was set aside"
        assert (job.model, job.host) not in self._running, "one model on two hosts of a kind"
        self._running[job.model, job.host] = host
        world.most_running = max(world.most_running, len(self._running))
        node.job = number, job
        rng = world.rng
        duration_s = (
            rng.uniform(*world.weather.run_s) * (3 if node.slow else 1)
            + rng.random() ** 4 * world.weather.transfer_s
        )
        world.later(duration_s, (self, node, number))

    def wait(self, limit_s: float) -> Sequence[Event]:
        if self._joined:
            events, self._joined = self._joined, []
            return events
        end_s = self.world.now_s + limit_s
        while (what := self.world.next_before(end_s)) is not None:
            if self.dies_s is not None and self.world.now_s >= self.dies_s:
                raise DriverKilled
            events = self._happen(what)
            if events:
                self._count()
                return events
        return []

    def stop(self) -> None:
        raise AssertionError("nobody stops it")

    def _happen(self, what: Any) -> list[Event]:
        world = self.world
        if what[0] == "ended":
            return self._lose(what[1])
        if what[0] == "preempted":
            return self._preempt(what[1]) if what[1].name in world.nodes else []
        if what[0] is not self:
            return []  # of a driver that was killed
        if len(what) == 2:
            return [what[1]]  # an answer that arrives late, or again
        _, node, number = what
        if node.job is None or node.job[0] != number:
            return []
        job = node.job[1]
        node.job = None
        del self._running[job.model, job.host]
        # A gauge by the node's own hardware; clocks of nodes are of no use to anybody.
        speed_ns = int(1e6 * (2.5 if node.slow else world.rng.uniform(0.9, 1.1)))
        answer = world.answer(node, job)
        ended = JobEnded(host=node.name, number=number, answer=answer, spent_s=60.0, speed_ns=speed_ns)
        if world.rng.random() < world.weather.twice_share:
            world.later(world.rng.uniform(0, 3600), (self, ended))
        return [ended]

    def _preempt(self, node: Node) -> list[Event]:
        """End a node; another one comes in its place."""
        events = self._lose(node)
        another = self.world.add(node.kind)
        self.world.later(
            self.world.rng.uniform(1, 600), (self, HostJoined(host=another.name, kind=another.kind))
        )
        return events

    def _lose(self, node: Node) -> list[Event]:
        world = self.world
        del world.nodes[node.name]
        world.n_lost += 1
        if node.job is not None:
            (number, job), node.job = node.job, None
            del self._running[job.model, job.host]
            if world.rng.random() < world.weather.late_share:
                late = JobEnded(host=node.name, number=number, answer=world.answer(node, job), spent_s=60.0)
                world.later(world.rng.uniform(0, 600), (self, late))
        return [LostHost(host=node.name, why="preempted")]

    def _count(self) -> None:
        self._n_events += 1
        if self._n_events % 2000 == 0:
            held = sum(type(one) is Envelope for one in gc.get_objects())
            self.world.most_documents = max(self.world.most_documents, held)
