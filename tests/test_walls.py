"""The walls between the rooms: who may import what, read off the source."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "ortune"
FILES = sorted(PACKAGE.rglob("*.py"))
KNOWN = set(FILES)

# What each room may import of the package besides records, errors and the providers of the catalogue.
ROOMS = {
    "catalogue": {"graph"},
    "records": set(),
    "printable": set(),
    "errors": {"printable"},
    "assigned_host": set(),
    "process_output": set(),
    "launcher": {"assigned_host", "process_output"},
    "files": set(),
    "temporary": set(),
    "monotonic": set(),
    "durations": set(),
    "step": set(),
    "objectives": set(),
    "stats": set(),
    "trace": set(),
    "store": set(),
    "show": set(),
    "worker": set(),
    "sources": {"worker"},
    # What runs on a host of a cluster is sent there by its source.
    "cluster": {"launcher", "assigned_host", "worker", "store"},
    "platform": {"launcher"},
    "graph": {"launcher", "temporary"},
    "runtimes": {"launcher", "assigned_host", "platform", "store"},
    "targets": {"launcher", "assigned_host", "temporary", "platform", "runtimes", "catalogue", "graph"},
    "inputs": {"graph"},
    "outputs": {"graph", "inputs", "store"},
    "rewrites": {"graph", "trace"},
    # A rule about phones asks which nodes an accelerator takes, which engines/partitions answers from files alone.
    "rules": {"graph", "trace", "platform", "catalogue", "rewrites", "engines"},
    "bundle": {"catalogue", "graph", "inputs"},
    "loader": {"bundle", "worker"},
    "recorder": {"launcher", "temporary", "platform"},
    "search": {"stats", "catalogue", "rewrites"},
    # Where the first outputs of a model are wrong, the engine of bisect names the node.
    "measuring": {
        "stats", "graph", "catalogue", "store", "runtimes", "targets", "inputs", "outputs", "rewrites", "rules",
        "bundle", "search", "launcher", "assigned_host", "temporary", "engines",
    },
    # What confines a process of a framework also says whether this system can.
    "engines": {
        "stats", "graph", "catalogue", "store", "runtimes", "targets", "trace", "inputs", "outputs", "rewrites",
        "rules", "bundle", "search", "temporary", "measuring", "worker",
    },
    "verbs": {
        "stats", "graph", "trace", "catalogue", "targets", "store", "show", "runtimes", "inputs", "outputs", "rewrites",
        "rules", "bundle", "search", "measuring", "engines", "recorder", "cluster", "assigned_host",
    },
    "answer": {"show"},
    "notebook": {"show"},
    "functions": {"verbs"},
    "api": {"verbs", "answer", "notebook", "functions"},
    "cli": {"api", "verbs", "show", "catalogue", "launcher"},
}  # fmt: skip
PLAIN = {"records", "errors", "stats", "search", "show", "store"}
"""Rooms that see records and numbers, never a model or ONNX Runtime."""
LONGEST = 400
"""Lines of a module: beyond that it has two ideas."""
LONGER = {
    "recorder/hook.py": "one file, because it is what lies in a user's program",
    "recorder/apply_hook.py": "one file, because it is what lies in a user's program",
}
"""Modules that are longer, at most five, each with the reason."""
HEAVY = {"numpy", "onnx", "onnx_ir", "onnxruntime", "scipy", "psutil", "rich", "jinja2"}


def room(file: Path) -> str:
    """The room that a file belongs to: its folder below the package, or its own name."""
    first = file.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def nodes(tree: ast.AST) -> Iterator[tuple[ast.AST, bool, bool]]:
    """Every node; whether it stands under ``TYPE_CHECKING``, and whether within a function."""
    waiting: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    while waiting:
        node, typing, inside = waiting.pop()
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typing = typing or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        yield node, typing, inside
        waiting += [(child, typing, inside) for child in ast.iter_child_nodes(node)]


def imported(file: Path, found: Iterable[ast.AST]) -> set[str]:
    """Absolute names of everything that statements of a file import."""
    package = ["ortune", *file.relative_to(PACKAGE).parent.parts]
    names = set()
    for node in found:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # Each dot beyond the first goes one package up.
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            names |= {f"{base}.{alias.name}" for alias in node.names} | {base}
    return names


def of_others(found: Iterable[ast.AST]) -> set[str]:
    """Packages that statements import by their absolute names."""
    names = set()
    for node in found:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.split(".")[0])
    return names


def written(node: ast.AST) -> str:
    """A name or an attribute as it is written."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{written(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ast.unparse(node)


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is read off a file.

    Attributes:
        imported: Absolute names of everything that it imports, wherever the statement stands.
        running: Those that are imported when it runs: types apart.
        at_import: Those that are imported with it: outside functions, types apart.
        absolute: Packages that it imports by their absolute names.
        names: Names and attributes that it mentions.
        dotted: Attributes as they are written.
        called: What it calls, as it is written.
        defined: Names that it gives to something: functions, classes, arguments, variables, attributes, imports.
    """

    imported: set[str]
    running: set[str]
    at_import: set[str]
    absolute: set[str]
    names: set[str]
    dotted: set[str]
    called: set[str]
    defined: set[str]

    @property
    def libraries(self) -> set[str]:
        return {name.split(".")[0] for name in self.imported}


@cache
def read(file: Path) -> Source:
    return of(file, file.read_text(encoding="utf-8"))


def of(file: Path, text: str) -> Source:
    places = list(nodes(ast.parse(text)))
    every = [n for n, _, _ in places]
    attributes = [n for n in every if isinstance(n, ast.Attribute)]
    return Source(
        imported=imported(file, every),
        running=imported(file, (n for n, typing, _ in places if not typing)),
        at_import=imported(file, (n for n, typing, inside in places if not typing and not inside)),
        absolute=of_others(every),
        names={n.attr for n in attributes} | {n.id for n in every if isinstance(n, ast.Name)},
        dotted={written(n) for n in attributes},
        called={written(n.func) for n in every if isinstance(n, ast.Call)},
        defined={name for n in every if (name := defined(n))},
    )


def defined(node: ast.AST) -> str:
    """The name that a node gives to something; "" where it gives none."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.alias):
        return node.asname or node.name
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.id if isinstance(node, ast.Name) else node.attr
    return ""


def rooms_imported(file: Path) -> set[str]:
    """The rooms of the package that a file reaches, itself left out, and what every room may know of providers."""
    parts = [name.split(".") for name in read(file).imported if not is_known_to_all(name)]
    reached = {p[1] for p in parts if p[0] == "ortune" and len(p) > 1}
    return {r for r in reached if (PACKAGE / r).is_dir() or (PACKAGE / f"{r}.py").is_file()} - {room(file)}


def is_known_to_all(name: str) -> bool:
    """Returns whether a name is of what every room may import of the catalogue, which reads files and nothing else."""
    return name == "ortune.catalogue" or name.startswith(
        ("ortune.catalogue.provider", "ortune.catalogue.files")
    )


def is_private(name: str) -> bool:
    # ``verbs/_shared`` and ``verbs/_many`` begin so because they are no verbs.
    return name.startswith("_") and not name.startswith("__") and name not in ("_", "_shared", "_many")


def private_of_others(source: Source, home: str, own: set[str], everywhere: set[str]) -> set[str]:
    """Private names that a file takes from other rooms: imported, or as members of what it has from there.

    Args:
        source: Of the file.
        home: Its room.
        own: What that room defines.
        everywhere: What all rooms define: other libraries have private names too.
    """
    parts = {name: name.split(".")[1:] for name in source.imported if name.startswith("ortune.")}
    taken = {name for name, path in parts.items() if path and path[0] != home and any(map(is_private, path))}
    return taken | {name for name in source.names & everywhere - own if is_private(name)}


def breaches(files: list[Path], found: Callable[[Path], set[str]]) -> dict[str, set[str]]:
    """What each of these files has that it may not."""
    assert files
    return {str(file.relative_to(PACKAGE)): names for file in files if (names := found(file))}


def test_every_room_has_its_walls() -> None:
    assert {room(f) for f in FILES} - {"__init__", "__main__"} == set(ROOMS)


def test_room_imports_only_what_it_may() -> None:
    def more(file: Path) -> set[str]:
        alone = room(file) in ("records", "errors", "worker")
        free = (
            set()
            if alone
            else {
                "records",
                "errors",
                "files",
                "printable",
                "monotonic",
                "durations",
                "step",
                "objectives",
            }
        )
        return rooms_imported(file) - ROOMS[room(file)] - free

    assert breaches([f for f in FILES if room(f) in ROOMS], more) == {}


def modules_imported(file: Path) -> set[Path]:
    """The files of the package that a file imports anywhere, types apart."""
    found = set()
    for name in read(file).running:
        where = PACKAGE.joinpath(*name.split(".")[1:])
        found |= {where.with_suffix(".py"), where / "__init__.py"} & KNOWN
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


def test_a_private_name_stays_in_its_room() -> None:
    rooms: dict[str, set[str]] = {}
    for file in FILES:
        rooms.setdefault(room(file), set()).update(read(file).defined)
    everywhere = set().union(*rooms.values())

    def taken(file: Path) -> set[str]:
        return private_of_others(read(file), room(file), rooms[room(file)], everywhere)

    assert breaches(FILES, taken) == {}


CORE = {"measuring", "outputs", "search", "engines", "stats"}


def test_the_core_imports_no_verb_and_no_words() -> None:
    core = [f for f in FILES if room(f) in CORE]
    assert breaches(core, lambda f: rooms_imported(f) & {"verbs", "show"}) == {}


def test_the_callbacks_of_a_verb_put_messages_of_the_core_into_words() -> None:
    made = {str(f.relative_to(PACKAGE)) for f in FILES if room(f) == "verbs" and "Watcher" in read(f).called}
    assert made == {"verbs/_shared/watching.py"}


FACE = {"options", "run", "result", "words"}
"""What a verb may import of another: its options, its steps, its result and its text."""


def test_a_verb_takes_of_another_its_face_alone() -> None:
    def inside(file: Path) -> set[str]:
        own = file.relative_to(PACKAGE).parts[1]
        modules = (name.split(".")[1:] for name in read(file).imported if name.startswith("ortune.verbs."))
        others = [path for path in modules if path[1] not in (own, "_shared") and len(path) > 2]
        return {".".join(path) for path in others if path[2] not in FACE}

    assert breaches([f for f in FILES if room(f) == "verbs" and f.name != "__init__.py"], inside) == {}


def test_a_module_is_short() -> None:
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert {str(f.relative_to(PACKAGE)) for f, n in lines.items() if n > LONGEST} == set(LONGER)
    assert len(LONGER) <= 5


# ``ortune.load`` gives the user a session in the user's own process: nothing is measured there.
def test_only_the_worker_imports_onnxruntime() -> None:
    files = [f for f in FILES if room(f) not in ("worker", "loader")]
    of_worker = [f for f in files if room(f) != "sources"]  # which is sent elsewhere beside it
    assert breaches(files, lambda f: read(f).libraries & {"onnxruntime"}) == {}
    # The fence is asked here whether this system has one; it imports the standard library alone.
    others = {"ortune.worker", "ortune.worker.fence", "ortune.worker.cluster_host"}
    assert (
        breaches(of_worker, lambda f: {n for n in read(f).imported if n.startswith("ortune.worker")} - others)
        == {}
    )


def test_the_worker_needs_numpy_and_onnxruntime_alone() -> None:
    allowed = {*sys.stdlib_module_names, "numpy", "onnxruntime"}
    assert breaches([f for f in FILES if room(f) == "worker"], lambda f: read(f).absolute - allowed) == {}


def test_the_hook_in_users_programs_needs_nothing_else() -> None:
    for name in ("hook.py", "apply_hook.py"):
        hook = read(PACKAGE / "recorder" / name)
        assert hook.absolute - set(sys.stdlib_module_names) == set()
        assert not [name for name in hook.imported if name.startswith("ortune")]


def test_no_model_is_seen_here() -> None:
    models = {"onnx", "onnx_ir", "google"}
    assert breaches([f for f in FILES if room(f) in PLAIN], lambda f: read(f).libraries & models) == {}


def test_what_is_shown_depends_on_the_session_alone() -> None:
    names = {"environ", "getenv", "environb"}
    libraries = {"urllib", "http", "socket", "requests", "subprocess", "numpy", "statistics"}
    files = [f for f in FILES if room(f) in ("show", "bundle")]
    found = breaches(files, lambda f: (read(f).names & names) | (read(f).libraries & libraries))
    assert found == {}


# The worker's modules run in a process that the launcher has started.
def test_only_the_launcher_starts_and_ends_processes() -> None:
    starting = ("os.fork", "os.exec", "os.spawn", "os.posix_spawn")
    calls = {"os.system", "os.popen", "os.kill", "os.killpg"}

    def processes(file: Path) -> set[str]:
        source = read(file)
        started = {name for name in source.dotted if name.startswith(starting)}
        return (
            (source.libraries & {"subprocess", "multiprocessing", "pty"}) | started | (source.dotted & calls)
        )

    assert breaches([f for f in FILES if room(f) not in ("launcher", "worker")], processes) == {}


# The worker's stdout is read by ortune alone, as is that of what asks an interpreter what it has.
def test_only_one_file_writes_to_a_terminal() -> None:
    """It escapes what comes from files."""

    def writing(file: Path) -> set[str]:
        called = read(file).called
        streams = {name for name in called if "sys.stdout" in name or "sys.stderr" in name}
        return (streams - {"sys.stdout.isatty"}) | (called & {"print"})

    files = [f for f in FILES if room(f) not in ("worker", "runtimes") and f.name != "output.py"]
    assert breaches(files, writing) == {}


def test_a_catalogue_reaches_no_network() -> None:
    files = [f for f in FILES if room(f) in ("rules", "catalogue", "rewrites")]
    assert breaches(files, lambda f: read(f).libraries & {"socket"}) == {}


def test_the_command_line_starts_light() -> None:
    files = [f for f in FILES if room(f) in ("cli", "api", "__init__")]
    assert breaches(files, lambda f: {name.split(".")[0] for name in read(f).at_import} & HEAVY) == {}


def test_the_command_line_holds_no_logic() -> None:
    libraries = {"numpy", "onnx", "onnx_ir", "onnxruntime", "subprocess"}
    rooms = {"stats", "search", "measuring", "engines", "worker", "trace"}
    files = [f for f in FILES if room(f) == "cli"]
    found = breaches(files, lambda f: (read(f).libraries & libraries) | (rooms_imported(f) & rooms))
    assert found == {}


def test_a_breach_is_found() -> None:
    """What the tests above read, of a file that does all that they forbid somewhere."""
    file = PACKAGE / "show" / "wrong.py"
    text = (
        "from typing import TYPE_CHECKING\n"
        "from . import words\n"
        "if TYPE_CHECKING:\n    import numpy as np\n"
        "def f():\n    import os, subprocess\n    from ..graph.model.open import open_model\n"
        "    os.fork(); print(os.environ); sys.stderr.write('x'); os._exit(words._own + f._of_others)\n"
    )
    source = of(file, text)
    assert source.imported >= {
        "numpy",
        "subprocess",
        "ortune.show.words",
        "ortune.graph.model.open.open_model",
    }
    assert source.imported - source.running == {"numpy"}
    assert source.running - source.at_import == {
        "os", "subprocess", "ortune.graph.model.open", "ortune.graph.model.open.open_model",
    }  # fmt: skip
    assert source.absolute == {"typing", "numpy", "os", "subprocess"}
    assert source.names >= {"environ", "fork", "print"}
    assert "os.fork" in source.dotted
    assert source.called == {"os.fork", "print", "sys.stderr.write", "os._exit"}
    assert source.defined >= {"words", "np", "f", "os"}
    assert private_of_others(source, "show", {"_own"}, {"_own", "_of_others"}) == {"_of_others"}
    module = of(file, "from ..rewrites._affine import PRODUCTS\nfrom . import _mine\n")
    assert private_of_others(module, "show", set(), set()) == {
        "ortune.rewrites._affine", "ortune.rewrites._affine.PRODUCTS",
    }  # fmt: skip
