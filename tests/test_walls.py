"""The walls between the rooms: who may import what, read off the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "ortune"
FILES = sorted(PACKAGE.rglob("*.py"))

# What each room may import of the package besides records and errors.
ROOMS = {
    "records": set(),
    "printable": set(),
    "errors": {"printable"},
    "launcher": set(),
    "files": set(),
    "stats": set(),
    "model": {"launcher"},
    "trace": set(),
    "knobs": set(),
    "platform": {"launcher"},
    "store": set(),
    "report": set(),
    "worker": set(),
    "fleet": {"launcher", "platform", "store"},
    "targets": {"launcher", "platform", "fleet", "knobs"},
    "analysis": {"model"},
    "inputs": {"model", "analysis"},
    "rewrites": {"model", "trace"},
    "rules": {"model", "trace", "platform", "knobs", "analysis", "rewrites"},
    "bundle": {"report", "knobs", "model", "analysis", "inputs"},
    "loader": {"bundle"},
    "search": {"stats", "knobs", "rewrites"},
    "trials": {
        "stats", "model", "knobs", "store", "fleet", "targets", "analysis", "inputs", "rewrites", "rules", "bundle",
        "search",
    },
    "profiling": {
        "stats", "model", "knobs", "store", "targets", "trace", "analysis", "inputs", "rewrites", "bundle", "search",
        "trials",
    },
    "locks": {"model", "knobs", "targets", "store", "trace", "analysis", "inputs", "trials"},
    "bisection": {"model", "knobs", "targets", "analysis", "inputs", "trials"},
    "verbs": {
        "stats", "model", "trace", "knobs", "targets", "store", "report", "fleet", "analysis", "inputs", "rewrites",
        "rules", "bundle", "search", "trials", "profiling", "locks",
        "bisection",
    },
    "answer": {"report"},
    "api": {"verbs", "answer"},
    "cli": {"api", "verbs", "report"},
}  # fmt: skip
PLAIN = {"records", "errors", "stats", "search", "report", "store"}
"""Rooms that see records and numbers, never a model or ONNX Runtime."""
HEAVY = {"numpy", "onnx", "onnx_ir", "onnxruntime", "scipy", "psutil", "rich", "jinja2"}


def room(file: Path) -> str:
    """The room that a file belongs to: its folder below the package, or its own name."""
    first = file.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imported(file: Path, nodes: Iterator[ast.AST] | None = None) -> set[str]:
    """Absolute names of everything that a file imports, wherever the statement stands."""
    package = ["ortune", *file.relative_to(PACKAGE).parent.parts]
    names = set()
    for node in nodes or ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # Each dot beyond the first goes one package up.
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            names |= {f"{base}.{alias.name}" for alias in node.names} | {base}
    return names


def running(file: Path) -> Iterator[ast.AST]:
    """Every statement but those under ``TYPE_CHECKING``."""
    waiting: list[ast.AST] = [tree(file)]
    while waiting:
        node = waiting.pop()
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            waiting += ast.iter_child_nodes(node)


def at_import(file: Path) -> Iterator[ast.AST]:
    """Statements that run when the module is imported: outside functions and ``TYPE_CHECKING``."""
    waiting: list[ast.AST] = [tree(file)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        waiting += ast.iter_child_nodes(node)


def rooms_imported(file: Path) -> set[str]:
    """The rooms of the package that a file reaches, itself left out."""
    parts = [name.split(".") for name in imported(file)]
    reached = {p[1] for p in parts if p[0] == "ortune" and len(p) > 1}
    return {r for r in reached if (PACKAGE / r).is_dir() or (PACKAGE / f"{r}.py").is_file()} - {room(file)}


def libraries(file: Path) -> set[str]:
    return {name.split(".")[0] for name in imported(file)}


def named(files: list[Path]) -> list[object]:
    return [pytest.param(f, id=str(f.relative_to(PACKAGE))) for f in files]


def test_every_room_has_its_walls() -> None:
    assert {room(f) for f in FILES} - {"__init__", "__main__"} == set(ROOMS)


@pytest.mark.parametrize("file", named([f for f in FILES if room(f) in ROOMS]))
def test_room_imports_only_what_it_may(file: Path) -> None:
    free = (
        set()
        if room(file) in ("records", "errors", "worker")
        else {"records", "errors", "files", "printable"}
    )
    assert rooms_imported(file) <= ROOMS[room(file)] | free


def modules_imported(file: Path) -> set[Path]:
    """The files of the package that a file imports anywhere, types apart."""
    found = set()
    for name in imported(file, running(file)):
        where = PACKAGE.joinpath(*name.split(".")[1:])
        found |= {path for path in (where.with_suffix(".py"), where / "__init__.py") if path in FILES}
    return found - {file}


def test_no_file_imports_itself_through_others() -> None:
    """What only re-exports is left out: a folder's ``__init__`` imports its files, which may be named with it."""
    graph = {f: {m for m in modules_imported(f) if m.name != "__init__.py"} for f in FILES}
    done: set[Path] = set()

    def walk(file: Path, way: tuple[Path, ...]) -> None:
        if file in way:
            circle = [str(f.relative_to(PACKAGE)) for f in (*way[way.index(file) :], file)]
            raise AssertionError(" -> ".join(circle))
        if file not in done:
            for other in sorted(graph[file]):
                walk(other, (*way, file))
            done.add(file)

    for file in FILES:
        walk(file, ())


# ``ortune.load`` gives the user a session in the user's own process: nothing is measured there.
@pytest.mark.parametrize("file", named([f for f in FILES if room(f) not in ("worker", "loader")]))
def test_only_the_worker_imports_onnxruntime(file: Path) -> None:
    assert "onnxruntime" not in libraries(file)
    assert "worker" not in rooms_imported(file)


@pytest.mark.parametrize("file", named([f for f in FILES if room(f) == "worker"]))
def test_the_worker_needs_numpy_and_onnxruntime_alone(file: Path) -> None:
    import sys

    allowed = {*sys.stdlib_module_names, "numpy", "onnxruntime"}
    absolute = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            absolute |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            absolute.add(node.module.split(".")[0])
    assert absolute <= allowed


@pytest.mark.parametrize("file", named([f for f in FILES if room(f) in PLAIN]))
def test_no_model_is_seen_here(file: Path) -> None:
    assert not libraries(file) & {"onnx", "onnx_ir", "google"}


@pytest.mark.parametrize("file", named([f for f in FILES if room(f) in ("report", "bundle")]))
def test_what_is_shown_depends_on_the_session_alone(file: Path) -> None:
    nodes = list(ast.walk(tree(file)))
    names = {n.attr for n in nodes if isinstance(n, ast.Attribute)} | {
        n.id for n in nodes if isinstance(n, ast.Name)
    }
    assert not names & {"environ", "getenv", "environb"}
    assert not libraries(file) & {"urllib", "http", "socket", "requests", "subprocess", "numpy", "statistics"}


# The worker's modules run in a process that the launcher has started.
@pytest.mark.parametrize("file", named([f for f in FILES if room(f) not in ("launcher", "worker")]))
def test_only_the_launcher_starts_and_ends_processes(file: Path) -> None:
    assert not libraries(file) & {"subprocess", "multiprocessing", "pty"}
    called = {ast.unparse(n) for n in ast.walk(tree(file)) if isinstance(n, ast.Attribute)}
    assert not {
        name for name in called if name.startswith(("os.fork", "os.exec", "os.spawn", "os.posix_spawn"))
    }
    assert not called & {"os.system", "os.popen", "os.kill", "os.killpg"}


# The worker's stdout is read by ortune alone, as is that of what asks an interpreter what it has.
@pytest.mark.parametrize(
    "file",
    named([f for f in FILES if room(f) not in ("worker", "fleet") and f.name != "output.py"]),
)
def test_only_one_file_writes_to_a_terminal(file: Path) -> None:
    """It escapes what comes from files."""
    called = {ast.unparse(n.func) for n in ast.walk(tree(file)) if isinstance(n, ast.Call)}
    streams = {name for name in called if "sys.stdout" in name or "sys.stderr" in name}
    assert not streams - {"sys.stdout.isatty"}
    assert "print" not in called


@pytest.mark.parametrize("file", named([f for f in FILES if room(f) in ("rules", "knobs", "rewrites")]))
def test_a_catalogue_reaches_no_network(file: Path) -> None:
    assert not libraries(file) & {"socket"}


@pytest.mark.parametrize("file", named([f for f in FILES if room(f) in ("cli", "api", "__init__")]))
def test_the_command_line_starts_light(file: Path) -> None:
    assert not {name.split(".")[0] for name in imported(file, at_import(file))} & HEAVY


@pytest.mark.parametrize("file", named([f for f in FILES if room(f) == "cli"]))
def test_the_command_line_holds_no_logic(file: Path) -> None:
    assert not libraries(file) & {"numpy", "onnx", "onnx_ir", "onnxruntime", "subprocess"}
    assert not rooms_imported(file) & {"stats", "search", "trials", "worker", "trace"}
