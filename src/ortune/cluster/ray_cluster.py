"""A running Ray cluster that ortune joins: its nodes, and the objects that carry models to them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ortune.errors import UsageError

RESOURCE = "ortune"
"""Resource of a node that makes it a host: ``ray start --resources '{"ortune": 1}'``."""
_CONNECT_S = 5.0
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""Start of an HTTP/2 connection with an empty settings frame; Ray uses gRPC, which uses HTTP/2."""
_SETTINGS, _SETTINGS_BYTES = b"\x04", 9
"""Type of the first frame in a server's response, and number of bytes to read of the frame."""
_PART_BYTES = 64 << 20
_HELD_SHARE = 0.5
"""Fraction of the object store that models may use; the remainder is for Ray."""
_VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_gcs_server_request_timeout_seconds": "10",
}
"""Variables that Ray reads on import: no usage reports, and an error within seconds."""


class ClusterNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the cluster that is a host.

    Attributes:
        id: Its identifier in Ray.
        name: Address and beginning of the identifier.
        labels: Its labels.
        store_bytes: Size of its object store.
    """

    id: str
    name: str
    labels: dict[str, str]
    store_bytes: int


class _Reported(msgspec.Struct, frozen=True, rename="pascal"):
    """Ray's report about a node."""

    node_id: str = msgspec.field(name="NodeID")
    alive: bool
    node_manager_address: str
    resources: dict[str, float] = {}
    labels: dict[str, str] = {}


class RayCluster:
    """A cluster that this process has joined.

    Attributes:
        ray: The module.
        version: Version of Ray, the same on all nodes.
        dashboard: Address of the dashboard; "" without one.
        has_environment: Whether the job has a ``runtime_env``, which each host sets up first.
    """

    def __init__(self, ray: Any, dashboard: str) -> None:
        self.ray, self.version, self.dashboard = ray, str(ray.__version__), dashboard
        self.objects = Objects(ray)
        self.has_environment = bool(ray.get_runtime_context().runtime_env)

    def nodes(self) -> tuple[ClusterNode, ...]:
        """Return the live nodes that are hosts, in a stable order.

        Raises:
            ConnectionError: The head of the cluster does not answer.
        """
        try:
            reported = msgspec.convert(self.ray.nodes(), list[_Reported])
        except (self.ray.exceptions.RayError, msgspec.ValidationError, OSError) as error:
            raise ConnectionError(str(error)) from error
        hosts = [
            ClusterNode(
                id=one.node_id,
                name=f"{one.node_manager_address}/{one.node_id[:6]}",
                labels=one.labels,
                store_bytes=int(one.resources.get("object_store_memory", 0)),
            )
            for one in reported
            if one.alive and one.resources.get(RESOURCE, 0) >= 1
        ]
        return tuple(sorted(hosts, key=lambda node: node.name))


class Objects:
    """Files in the object store of the cluster: each is stored once, and the least recently used are released first.

    Args:
        ray: The module.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._kept: OrderedDict[str, tuple[int, list[Any]]] = OrderedDict()
        self._guard = threading.Lock()

    def parts(self, path: Path, digest: str, size_bytes: int, store_bytes: int) -> list[Any]:
        """Return references to the parts of a file.

        Args:
            path: The file.
            digest: Digest that identifies its content.
            size_bytes: Size of the file.
            store_bytes: Size of the object store that receives it.

        Raises:
            UsageError: The file exceeds half of the store.
        """
        room = int(_HELD_SHARE * store_bytes)
        if size_bytes > room:
            raise UsageError(
                f"has {size_bytes >> 20} MiB, more than half of the host's object store ({store_bytes >> 20} MiB)",
                where=str(path),
                do=f"start Ray there with --object-store-memory {2 * size_bytes} or more",
                code="object-store",
            )
        with self._guard:
            if digest in self._kept:
                self._kept.move_to_end(digest)
                return self._kept[digest][1]
            while self._kept and sum(size for size, _ in self._kept.values()) + size_bytes > room:
                self._kept.popitem(last=False)
            with path.open("rb") as file:
                parts = [self._ray.put(data) for data in iter(lambda: file.read(_PART_BYTES), b"")]
            self._kept[digest] = size_bytes, parts
            return parts


@contextlib.contextmanager
def joined(address: str) -> Iterator[RayCluster]:
    """Join a running cluster for the duration of a ``with`` block.

    Args:
        address: HOST:PORT of its head; "" for the one in ``RAY_ADDRESS`` or on this machine.

    Raises:
        UsageError: Ray is not installed, no cluster answers, or its version of Ray or Python differs.
    """
    where = f"--on ray:{address}" if address else "--on ray"
    _require_answer(address, where)
    with _variables(_VARIABLES):
        try:
            import ray
        except ImportError as error:
            raise UsageError("Ray is not installed", where=where, do="pip install 'ortune[ray]'") from error
        with _own_signals():
            try:
                context = ray.init(
                    address=address or "auto",
                    logging_level="error",
                    log_to_driver=False,
                    configure_logging=False,
                    namespace=RESOURCE,
                )
            except (ConnectionError, ValueError, SystemExit, ray.exceptions.RayError) as error:
                raise UsageError(
                    "no Ray cluster answers",
                    where=where,
                    do="start one with `ray start --head`, or pass --on ray:HOST:PORT",
                ) from error
            except RuntimeError as error:
                what = " ".join(str(error).split())
                raise UsageError(
                    _mismatch(what),
                    where=where,
                    do="run ortune with the Python and the Ray of the cluster",
                    code="ray-version",
                ) from error
    dashboard = context.address_info.get("webui_url") or ""
    with off_stdout(ray.shutdown):
        yield RayCluster(ray, str(dashboard))


@contextlib.contextmanager
def off_stdout(end: Callable[[], object]) -> Iterator[None]:
    """Redirect stdout to stderr during a ``with`` block, then call ``end`` and discard its output.

    Ray prints the log of a lost node on stdout, part of it during shutdown, which would damage a document on stdout.

    Args:
        end: The function.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        with Path(os.devnull).open("w", encoding="utf-8") as nothing, contextlib.redirect_stdout(nothing):
            end()


def _mismatch(text: str) -> str:
    """Return a shorter form of Ray's message about different versions; the message itself if its form is unknown."""
    words = text.split()
    versions = [
        (words[i + 1], words[i + 3])
        for i, word in enumerate(words)
        if word == "Ray:" and words[i + 2 : i + 3] == ["Python:"] and len(words) > i + 3
    ]
    if len(versions) != 2:
        return text
    (cluster, its_python), (own, own_python) = versions
    return (
        f"the cluster has Ray {cluster} on Python {its_python}; ortune has Ray {own} on Python {own_python}"
    )


def _require_answer(address: str, where: str) -> None:
    """Check that a Ray cluster listens at an address, since Ray itself tries for minutes and then ends the process."""
    if not address:
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise UsageError(f"{address!r} is not HOST:PORT", where=where, do="e.g. --on ray:10.0.0.1:6379")
    do = "pass the address that `ray start --head` printed"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S) as connection:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            connection.sendall(_HTTP2)
            answer = connection.recv(_SETTINGS_BYTES)
    except TimeoutError:
        answer = b""
    except (OSError, OverflowError) as error:
        raise UsageError(f"nothing answers at {address} ({error})", where=where, do=do) from error
    if answer[3:4] != _SETTINGS:
        raise UsageError(f"what answers at {address} is not the head of a Ray cluster", where=where, do=do)


@contextlib.contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of this process while Ray reads them, unless the user set them."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Restore the signal handlers that Ray replaces, since ortune handles stops."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
