"""A worker under an interpreter without access to this machine's files, which are sent through stdin and stdout.

``worker/relay.py`` runs at the other end of the connection. The worker and its protocol are the same as on this
machine.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib.resources
import json
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec

from ortune import assigned_host, launcher, platform
from ortune.graph.model.open import open_model
from ortune.platform import SensorSnapshot
from ortune.records import ToolRequest, TrialError, TrialRequest
from ortune.runtimes.environment import clean_environment

_FOLDER = "//ortune-relay//"
"""Placeholder for the remote folder in messages, the same as in ``worker/relay.py``."""
_OUTPUT = "output"
_PROGRAM, _PACKAGES = "ortune-worker.pyz", "packages.zip"
_CHUNK = 1 << 20
MOST_BACK_BYTES = 8 << 30
"""Limit in bytes of all files that one process sends back: outputs, a profile, a converted model."""
MOST_FILES = 10_000
_LEAVING_S = 5.0
# The console module accepts a program line by line; as an argument, a program would be split by ssh.
_CONSOLE = ("-I", "-m", "code")


_Part = Annotated[str, msgspec.Meta(max_length=1000)]
_File = Annotated[str, msgspec.Meta(max_length=1 << 20)]


class _Said(msgspec.Struct, kw_only=True):
    """A message of the relay about itself or a file.

    Attributes:
        relay: Kind of the message.
        wanted: Whether the relay needs the content of a file.
        path: Index of the requested output, followed by the parts of the file's path.
        first: Whether the piece is the first of its file.
        data: The piece, in base64 in the JSON line.
        texts: Contents of files in /proc and /sys, by path.
    """

    relay: Annotated[str, msgspec.Meta(max_length=20)]
    wanted: bool = False
    path: Annotated[tuple[_Part, ...], msgspec.Meta(max_length=20)] = ()
    first: bool = False
    data: bytes = b""
    texts: Annotated[dict[_Part, _File], msgspec.Meta(max_length=500)] = {}


class _TooMuch(Exception):
    """The files sent back exceed the limits of size or number."""


class RelayLost(Exception):
    """The relay did not answer as expected."""


class ProcessEnded(RelayLost):
    """The remote process ended; its last messages can still be read from its lines."""


class RemoteChild(launcher.Child):
    """A process with a remote interpreter, with the methods of a local child process.

    Args:
        python: A command whose stdin and stdout are those of a Python interpreter.
        log: File for the command's stderr.
        folder: Working directory of the command on this machine.
        limit_s: Time limit in seconds for each response of the relay.

    Raises:
        OSError: The command cannot be started.
    """

    def __init__(self, python: str, *, log: IO[bytes], folder: Path, limit_s: float) -> None:
        super().__init__([python, *_CONSOLE], environment=clean_environment(), folder=folder, log=log)
        self._limit_s, self._python = limit_s, python
        self._answers: queue.Queue[_Said | None] = queue.Queue()
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._places: list[Path] = []
        self._back_bytes = 0
        self._back_files: set[Path] = set()
        threading.Thread(target=self._receive, args=(super().lines(),), daemon=True).start()

    def begin(
        self, program: bytes, arguments: Sequence[str], variables: Mapping[str, str], packed: str = ""
    ) -> None:
        """Start the worker on the other machine.

        Args:
            program: The worker's zipapp.
            arguments: Command-line arguments of the worker.
            variables: Environment variables to add.
            packed: Archive of packages that take precedence over the interpreter's packages; "" for none.

        Raises:
            RelayLost: There is no Python on the other machine, or it does not answer.
        """
        source = importlib.resources.files("ortune").joinpath("worker", "relay.py").read_bytes()
        text = base64.b64encode(source + b"\nRelay().listen()\n").decode()
        self.send(f'exec(__import__("base64").b64decode("{text}"))\n'.encode())
        self._answer("ready")
        self._carry(program, _PROGRAM)
        if packed:
            self._carry(Path(packed), _PACKAGES)
        self._tell(
            "start",
            program=_PROGRAM,
            arguments=list(arguments),
            environment=dict(variables),
            packages=_PACKAGES if packed else "",
        )

    def with_remote_paths(self, request: TrialRequest | ToolRequest) -> TrialRequest | ToolRequest:
        """Send the files of a request; return the request with their remote paths.

        Raises:
            RelayLost: The relay does not answer.
        """
        feeds = tuple(
            msgspec.structs.replace(feed, path=self._folder(Path(feed.path), f"feeds/{number}"))
            for number, feed in enumerate(request.feeds)
        )
        libraries = tuple(
            self._file(Path(path), f"libraries/{number}") for number, path in enumerate(request.custom_ops)
        )
        model = self._model(Path(request.model), "model")
        request = msgspec.structs.replace(request, model=model, feeds=feeds, custom_ops=libraries)
        if isinstance(request, ToolRequest):
            params = dict(request.params)
            if "models" in params:
                paths = json.loads(params["models"])
                params["models"] = json.dumps(
                    [self._model(Path(p), f"model/{i}") for i, p in enumerate(paths)]
                )
            return msgspec.structs.replace(request, output=self._written(request.output), params=params)
        return msgspec.structs.replace(
            request,
            outputs_path=self._written(request.outputs_path),
            profile_path=self._written(request.profile_path),
        )

    def sensors(self) -> SensorSnapshot | None:
        """Return the other machine's current sensor readings; None if the relay does not answer."""
        self._tell("sensors")
        try:
            return platform.remote_sensors(self._answer("sensors").texts)
        except RelayLost:
            return None

    def sleep(self, stop: bool) -> None:
        """Stop the worker on the other machine, or resume it."""
        self._tell("sleep" if stop else "wake")

    def end(self) -> int:
        """End the process and return its exit code; the relay then removes the files that it received."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.ended_within(_LEAVING_S)
        return super().end()

    def lines(self) -> queue.Queue[bytes | None]:
        """Return the queue of the worker's lines; the worker's files arrive before the line that reports its end."""
        return self._lines

    def _receive(self, said: queue.Queue[bytes | None]) -> None:
        while (line := said.get()) is not None:
            if line.startswith(b'{"relay"'):
                try:
                    message = msgspec.json.decode(line, type=_Said)
                    if message.relay == "back":
                        self._take(message)
                    else:
                        self._answers.put(message)
                except (msgspec.MsgspecError, UnicodeDecodeError, _TooMuch, OSError) as error:
                    what = f"{self._python} sent files or messages that were refused: {error}"
                    self._lines.put(msgspec.json.encode(TrialError(reason="protocol", what=what)))
                    break
                continue
            for number, place in enumerate(self._places):
                # In the spelling of JSON, since a path may contain backslashes.
                inside = json.dumps(f"{place.parent}/")[1:-1]
                line = line.replace(f"{_FOLDER}{_OUTPUT}/{number}/".encode(), inside.encode())
            self._lines.put(line.replace(_FOLDER.encode(), b""))
        self._answers.put(None)
        self._lines.put(None)

    def _take(self, message: _Said) -> None:
        """Write a piece of a file from the other machine, if the file belongs to a requested output.

        Raises:
            _TooMuch: The files exceed the limits of size or number.
            OSError: The piece cannot be written here.
        """
        number, name, *rest = message.path if len(message.path) > 1 else ("", "")
        place = self._places[int(number)] if number in map(str, range(len(self._places))) else None
        if (
            place is None
            or not name.startswith(place.name)
            or {"", ".", ".."} & {name, *rest}
            or "/" in "".join((name, *rest))
        ):
            return
        path = place.parent.joinpath(name, *rest)
        self._back_bytes += len(message.data)
        self._back_files.add(path)
        if self._back_bytes > MOST_BACK_BYTES or len(self._back_files) > MOST_FILES:
            raise _TooMuch(f"more than {MOST_BACK_BYTES / 2**30:g} GiB or {MOST_FILES:,} files")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb" if message.first else "ab") as file:
            file.write(message.data)

    def _tell(self, command: str, **fields: Any) -> None:
        self.send(json.dumps({"relay": command, **fields}).encode() + b"\n")

    def _answer(self, kind: str) -> _Said:
        """Return the relay's response to the last command."""
        try:
            answer = self._answers.get(timeout=self._limit_s)
        except queue.Empty:
            raise RelayLost(f"did not answer within {self._limit_s:.0f} s") from None
        if answer is None or answer.relay != kind:
            raise ProcessEnded("ended without an answer")
        return answer

    def _carry(self, content: bytes | Path, name: str) -> str:
        """Send one file, unless the relay has it already; return its path on the other machine."""
        if isinstance(content, bytes):
            digest, size = hashlib.sha256(content).hexdigest(), len(content)
        else:
            stat = content.stat()
            digest, size = _digest(content, stat.st_size, stat.st_mtime_ns), stat.st_size
            host = assigned_host.assigned.get()
            if host is not None and not self.is_here and size > _CHUNK:
                host.keep(content, digest, size)
        self._tell("file", path=name, sha256=digest, bytes=size)
        if self._answer("send").wanted:
            for data in [content] if isinstance(content, bytes) else _chunks(content):
                self.send(data)
        return _FOLDER + name

    def _file(self, path: Path, folder: str) -> str:
        return self._carry(path, f"{folder}/{path.name}")

    def _folder(self, path: Path, name: str) -> str:
        for file in sorted(path.rglob("*")):
            if file.is_file():
                self._carry(file, f"{name}/{file.relative_to(path).as_posix()}")
        return _FOLDER + name

    def _model(self, path: Path, folder: str) -> str:
        """Send a model and its external data under their relative names; return the model's remote path."""
        if path.is_file():
            stat = path.stat()
            for file in _parts(path, stat.st_size, stat.st_mtime_ns):
                self._carry(file, f"{folder}/{file.relative_to(path.parent).as_posix()}")
        return f"{_FOLDER}{folder}/{path.name}"

    def _written(self, path: str) -> str:
        """Register an output that is later copied here, and return its path on the other machine; "" for no output."""
        if not path:
            return ""
        place = Path(path)
        self._places.append(place)
        folder = f"{_OUTPUT}/{len(self._places) - 1}"
        self._tell("folder", path=f"{folder}/{place.name}" if place.is_dir() else folder)
        return f"{_FOLDER}{folder}/{place.name}"


@cache
def _digest(path: Path, size: int, changed_ns: int) -> str:
    """Return the digest of a file, cached by size and time, since the file is sent for many trials."""
    del size, changed_ns
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _parts(path: Path, size: int, changed_ns: int) -> tuple[Path, ...]:
    """Return the files of a model, cached by size and time."""
    del size, changed_ns
    return tuple(file for file, _, _ in open_model(path).stamps)


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            yield data
