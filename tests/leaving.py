"""Ways out of a confined process, each tried from inside of one: an attempt that does not raise has left."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path


def attempts(outside: Path) -> dict[str, Callable[[], object]]:
    """The ways, by name; ``outside`` holds what ``prepare`` made."""
    given = json.loads(os.environ.get("OUTSIDE", "{}")) or {"port": 9, "parent": os.getppid()}
    secret, parent, port = outside / "secret", given["parent"], given["port"]
    return {
        "read": secret.read_bytes,
        "list": lambda: list(outside.iterdir()),
        "read the system's users": Path("/etc/passwd").read_bytes,
        "list the root": lambda: list(Path("/").iterdir()),
        "create": (outside / "made").touch,
        "overwrite": lambda: secret.write_text("other"),
        "open for both": lambda: os.close(os.open(secret, os.O_RDWR)),
        "empty": lambda: os.truncate(secret, 0),
        "empty by opening": lambda: os.close(os.open(secret, os.O_RDONLY | os.O_TRUNC)),
        "open for nothing": lambda: os.close(os.open(secret, os.O_ACCMODE)),
        "empty by opening for nothing": lambda: os.close(os.open(secret, os.O_ACCMODE | os.O_TRUNC)),
        "remove": secret.unlink,
        "rename": lambda: secret.rename(outside / "renamed"),
        "take in": lambda: secret.rename("taken"),
        "make a folder": (outside / "folder").mkdir,
        "by a link": lambda: (Path("link").symlink_to(secret), Path("link").read_bytes()),
        "by a hard link": lambda: os.link(secret, "hard"),
        "leave a pipe": lambda: os.mkfifo("pipe"),
        "shared memory": lambda: Path("/dev/shm/ortune-left").touch(),
        "connect": lambda: socket.create_connection(("127.0.0.1", port), 1).close(),
        "send a datagram": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", port)),
        "a local socket": lambda: socket.socket(socket.AF_UNIX),
        "a pair of sockets": socket.socketpair,
        "start a program": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
        "start a shell": lambda: _zero(os.system("true")),
        "spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
        "fork": lambda: os.fork() or os._exit(0),
        "become a program": lambda: os.execv("/bin/true", ["true"]),
        "signal another process": lambda: os.kill(parent, 0),
        "signal its group": lambda: os.killpg(0, signal.SIGCONT),
        "trace another process": lambda: _called("ptrace", 16, parent, 0, 0),
        "read another's memory": lambda: _called("process_vm_readv", parent, 0, 0, 0, 0, 0),
        "another's variables": Path(f"/proc/{parent}/environ").read_bytes,
        "outlive its parent": lambda: _called("prctl", 1, 0, 0, 0, 0),
        "io_uring": lambda: _called("syscall", 425, 1, ctypes.create_string_buffer(256)),
        "a user namespace": lambda: _called("unshare", 0x10000000),
        "lift a limit": lambda: _lift(),
        "from another thread": lambda: _in_a_thread(secret.read_bytes),
    }  # fmt: skip


def excesses() -> dict[str, Callable[[], object]]:
    """What goes beyond 1 GiB of memory, and 1 MiB of a file."""
    return {
        "more memory": lambda: bytearray(3 << 30),
        "a larger file": lambda: Path("large").write_bytes(bytes(3 << 20)),
    }


MODULE = """
import json, os
from pathlib import Path

import leaving

given = json.loads(Path("given.json").read_text())
os.environ["OUTSIDE"] = given["outside"]
left = leaving.left(Path(given["folder"]))
try:
    open("written-here", "w")
    left.append("write to the current folder")
except OSError:
    pass
if left:
    raise RuntimeError("LEFT: " + ", ".join(left))
"""
"""Begins the module of a source that tries to leave wherever it is imported."""


@contextlib.contextmanager
def watched(outside: Path, work: Path) -> Iterator[None]:
    """Lets the module in a folder try to leave; fails if anything changed outside at the end."""
    prepare(outside)
    shutil.copy(__file__, work)
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = {"port": server.getsockname()[1], "parent": os.getpid()}
        given = {"outside": json.dumps(told), "folder": str(outside)}
        (work / "given.json").write_text(json.dumps(given))
        yield
    assert untouched(outside)
    assert not (work / "written-here").exists() and not list(Path("/dev/shm").glob("ortune-left"))


def prepare(outside: Path) -> None:
    """Makes what an attempt would change."""
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (outside / "secret").chmod(0o644)


def untouched(outside: Path) -> bool:
    """Returns whether what ``prepare`` made is as it was, and nothing else is there."""
    secret = outside / "secret"
    return (
        [path.name for path in outside.iterdir()] == ["secret"]
        and secret.read_text() == "secret"
        and secret.stat().st_mode & 0o777 == 0o644
        and secret.stat().st_mtime > 0
    )


def left(outside: Path, *, limited: bool = False) -> list[str]:
    """Tries all; the names of those that left. Modes and times are set as if, so the caller looks at them."""
    (outside / "secret").chmod(0o600)
    os.utime(outside / "secret", (0, 0))
    done = []
    for name, attempt in {**attempts(outside), **(excesses() if limited else {})}.items():
        try:
            attempt()
        except (OSError, MemoryError, ValueError):
            continue
        done.append(name)
    return done


def _zero(code: int) -> None:
    if code:
        raise OSError(code)


def _called(name: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)


def _lift() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _in_a_thread(attempt: Callable[[], object]) -> None:
    caught: list[BaseException] = []

    def run() -> None:
        try:
            attempt()
        except OSError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if caught:
        raise caught[0]


REFUSING = """
import ctypes, struct, sys
error, numbers = int(sys.argv[1]), [int(n) for n in sys.argv[2].split(",")]
code = [(0x20, 0, 0, 0)]
for number in numbers:
    code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | error)]
code.append((0x06, 0, 0, 0x7FFF0000))
packed = b"".join(struct.pack("HBBI", *line) for line in code)
kept = ctypes.create_string_buffer(packed, len(packed))
library = ctypes.CDLL(None)
library.prctl(38, 1, 0, 0, 0)
assert library.prctl(22, 2, struct.pack("HP", len(code), ctypes.addressof(kept)), 0, 0) == 0
"""
"""Makes system calls fail from now on, as a container's filter or an old kernel does."""
