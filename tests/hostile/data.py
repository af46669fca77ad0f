"""Files that a stranger may hand over, each made by one function, and what the command line must make of them."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from onnx import TensorProto, helper

ESCAPES = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202egnp.exe\u2066\x7f"
"""What a terminal would act on: clearing, a title, a carriage return, a C1 control, text that runs backwards."""
COMMANDS = "\n::error::owned\n##[add-path]/owned%0A::set-env name=A::b\n"
"""What a log on GitHub would act on."""
NAME = f"n{ESCAPES}{COMMANDS}@octocat `x` <script>alert(1)</script> |a| [l](http://e.vil)"


FILE = NAME.replace("/", "|")[:180]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One hostile file and a command line over it; ``{file}`` stands for its path.

    Attributes:
        codes: Exit codes that are right.
        says: What the output must hold.
        longest: Characters of stdout and stderr together, at most.
        written: What the command may write beside the user's own places.
        long: Others run the same model and print the same names.
    """

    name: str
    make: Callable[[Path], None]
    file: str
    command: tuple[str, ...]
    codes: tuple[int, ...]
    says: tuple[str, ...] = ()
    longest: int = 20_000
    written: tuple[str, ...] = ()
    long: bool = False


def save(
    path: Path,
    *,
    dims: list[Any],
    node: str = "n",
    names: tuple[str, str] = ("x", "y"),
    weight_dims: list[int] | None = None,
    metadata: str = "",
    out_dims: list[Any] | None = None,
) -> None:
    """A model of one operator, unchecked: Relu, or Add with a weight that claims a shape."""
    x, y = names
    tensors = []
    if weight_dims is None:
        made = helper.make_node("Relu", [x], [y], name=node)
    else:
        made = helper.make_node("Add", [x, "w"], [y], name=node)
        tensors = [TensorProto(name="w", data_type=TensorProto.FLOAT, dims=weight_dims, raw_data=bytes(16))]
    graph = helper.make_graph(
        [made],
        "g" + metadata,
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, dims if out_dims is None else out_dims)],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    model.producer_name = metadata
    model.doc_string = metadata
    path.write_bytes(model.SerializeToString())


def plain(path: Path) -> None:
    """An innocent model."""
    save(path, dims=[1, 4])


def dimensions(sizes: list[int]) -> Callable[[Path], None]:
    """An input of these sizes."""
    return partial(save, dims=sizes)


def weights(sizes: list[int]) -> Callable[[Path], None]:
    """A weight that claims these sizes and holds sixteen bytes."""
    return partial(save, dims=[1, 4], weight_dims=sizes)


def names(path: Path) -> None:
    """Names of everything that a terminal or a log on GitHub would act on."""
    save(path, dims=[1, 4], node=NAME, names=(f"x{NAME}", f"y{NAME}"), metadata=NAME)


def function(path: Path, *, calls: str) -> None:
    """A function that calls itself, or another one that calls it."""
    made = [("F", calls), ("G", "F")]
    functions = [
        helper.make_function(
            "own", name, ["a"], ["b"], [helper.make_node(call, ["a"], ["b"], domain="own")],
            [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)],
        )
        for name, call in made
    ]  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("F", ["x"], ["y"], domain="own")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions)
    path.write_bytes(model.SerializeToString())


def growing(path: Path, *, times: int = 2, deep: int = 60) -> None:
    """Functions that call the one before them several times: a small file, and no end of nodes."""
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
    functions = []
    for number in range(deep):
        op_type, domain = (f"F{number - 1}", "own") if number else ("Relu", "")
        ends = ["a", *(f"v{i}" for i in range(times - 1)), "b"]
        steps = [helper.make_node(op_type, [x], [y], domain=domain) for x, y in itertools.pairwise(ends)]
        functions.append(helper.make_function("own", f"F{number}", ["a"], ["b"], steps, opsets))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node(f"F{deep - 1}", ["x"], ["y"], domain="own")], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions)
    path.write_bytes(model.SerializeToString())


def not_text(path: Path) -> None:
    """Names whose bytes are a lone surrogate, which is no UTF-8."""
    save(path, dims=[1, 4], node="n@@@", names=("x@@@", "y@@@"))
    path.write_bytes(path.read_bytes().replace(b"@@@", "\ud800".encode("utf-8", "surrogatepass")))


def text(path: Path, *, content: str | bytes) -> None:
    """A file of these characters."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))


def fifo(path: Path) -> None:
    """A named pipe that nobody writes to."""
    os.mkfifo(path)


def device(path: Path) -> None:
    """A link to a device that never ends."""
    path.symlink_to("/dev/zero")


def bundle(path: Path, **fields: Any) -> None:
    """A bundle whose index says these."""
    path.mkdir()
    save(path / "m.onnx", dims=[1, 4])
    index = {"schema": "ortune/bundle/1", "model": "m.onnx", "sha256": "", "plan": {}, "ort_version": "1"}
    (path / "ortune.json").write_text(json.dumps(index | fields))


def event(name: str, at: object, took: object, **more: Any) -> dict[str, Any]:
    """One event of a node."""
    args = {"op_name": "Relu", "provider": "CPUExecutionProvider", "node_index": "0", **more}
    return {"cat": "Node", "pid": 1, "tid": 1, "dur": took, "ts": at, "ph": "X",
            "name": f"{name}_kernel_time", "args": args}  # fmt: skip


def trace(
    path: Path, *, node: str = "n", at: object = 10, took: object = 50, cut: int = 0, **more: Any
) -> None:
    """A profile of three runs; one node of the second one is as given."""
    events: list[dict[str, Any]] = []
    for number in range(3):
        start = number * 1000
        events.append(event("fine", start + 1, 5))
        events.append(event(node, at if number == 1 else start + 10, took if number == 1 else 50, **more))
        events.append({"cat": "Session", "pid": 1, "tid": 1, "dur": 200, "ts": start, "ph": "X",
                       "name": "model_run", "args": {}})  # fmt: skip
    lines = ",\n".join(json.dumps(each) for each in events).replace('"@NaN@"', "NaN")
    content = f"[\n{lines}\n]\n"
    path.write_text(content[: len(content) - cut])


HUGE = "9" * 5000
REFUSED, RUNS = (2,), (0,)
DIMENSIONS: dict[str, tuple[list[int], tuple[int, ...]]] = {
    "2^40": ([2**40], REFUSED), "2^62": ([2**62], REFUSED), "2^62 twice": ([2**62, 2**62], REFUSED),
    "rank 65": ([1] * 65, REFUSED), "rank 1000": ([1] * 1000, REFUSED),
    "zero": ([0, 4], RUNS), "negative": ([-5, 4], RUNS), "least": ([-(2**63)], RUNS),
}  # fmt: skip
"""Sizes of an input; ONNX Runtime takes a negative one for any."""


def _models() -> Iterator[Case]:
    for name, (sizes, codes) in DIMENSIONS.items():
        yield Case(name=f"input of {name}", make=dimensions(sizes), file="m.onnx",
                   command=("look", "{file}", "--budget", "1s"), codes=codes)  # fmt: skip
        yield Case(name=f"weight of {name}", make=weights(sizes), file="m.onnx", command=("look", "{file}"),
                   codes=REFUSED)  # fmt: skip
    for verb in ("lock", "profile", "tune"):
        yield Case(name=f"{verb}: input of 2^40", make=dimensions([2**40]), file="m.onnx",
                   command=(verb, "{file}"), codes=REFUSED)  # fmt: skip
    for calls in "FG":
        yield Case(name=f"function F calls {calls}", make=partial(function, calls=calls), file="m.onnx",
                   command=("look", "{file}"), codes=REFUSED, says=("calls itself",))  # fmt: skip
    yield Case(name="functions that grow", make=growing, file="m.onnx", command=("look", "{file}"), codes=REFUSED,
               says=("functions written out",))  # fmt: skip
    yield Case(name="functions that are deep", make=partial(growing, times=1, deep=5000), file="m.onnx",
               command=("look", "{file}"), codes=REFUSED, says=("deep",))  # fmt: skip
    yield Case(name="names that are no text", make=not_text, file="m.onnx", command=("look", "{file}"),
               codes=REFUSED)  # fmt: skip
    # ONNX Runtime writes the node's name into its profile once a run.
    long = partial(save, dims=[1, 4], node="n" * 50_000, names=("x" * 1_000_000, "y" * 1_000_000))
    for verb in ("look", "profile"):
        yield Case(name=f"{verb}: names of a megabyte", make=long, file="m.onnx",
                   command=(verb, "{file}", *(["--no-peak"] if verb == "profile" else [])),
                   codes=RUNS, longest=10_000)  # fmt: skip
    for form in ("text", "json", "markdown"):
        yield Case(name=f"profile: names as {form}", make=names, file="m.onnx",
                   command=("profile", "--no-peak", "{file}", "--format", form), codes=RUNS,
                   long=form != "text")  # fmt: skip
    yield Case(name="lock: names as github", make=names, file="m.onnx", written=("m.onnx.lock.json",),
               command=("lock", "{file}", "--format", "github"), codes=RUNS)  # fmt: skip


def _names_of_files() -> Iterator[Case]:
    for name, command, codes in (
        ("model", ("look", "{file}"), RUNS),
        ("model as json", ("profile", "--no-peak", "{file}", "--json"), RUNS),
        ("second model", ("compare", "m.onnx", "{file}"), REFUSED),
        ("file alone", ("{file}.",), REFUSED),
        ("missing model", ("compare", "missing{file}"), REFUSED),
        ("missing model as json", ("tune", "missing{file}", "--json"), REFUSED),
        ("revision", ("look", "m.onnx@{file}"), REFUSED),
        ("lock", ("lock", "m.onnx", "--check", "{file}"), REFUSED),
        ("place to write", ("profile", "{file}", "--no-peak", "--output", "no/{file}"), REFUSED),
        ("interpreter", ("look", "m.onnx", "--python", "{file}"), REFUSED),
    ):
        yield Case(name=f"escapes in the name of a {name}", make=names, file=f"{FILE}.onnx", command=command,
                   codes=codes)  # fmt: skip


def _no_files() -> Iterator[Case]:
    for what, make in (("pipe", fifo), ("device", device)):
        for kind, file, command in (
            ("model", "f.onnx", ("look", "{file}")),
            ("file alone", "f", ("{file}",)),
            ("trace", "f.json", ("profile", "{file}")),
            ("plan", "f.json", ("compare", "m.onnx", "{file}")),
            ("workload", "f.json", ("look", "m.onnx", "--workload", "{file}")),
            ("inputs", "f.npz", ("look", "m.onnx", "--inputs", "{file}")),
            ("lock", "f.json", ("lock", "m.onnx", "--check", "{file}")),
        ):
            yield Case(name=f"{kind} that is a {what}", make=make, file=file, command=command, codes=REFUSED,
                       says=("egular file",))  # fmt: skip


def _texts() -> Iterator[Case]:
    def case(name: str, content: str | bytes, *command: str, codes: tuple[int, ...] = REFUSED) -> Case:
        return Case(name=name, make=partial(text, content=content), file="f.json", command=command, codes=codes,
                    longest=3000)  # fmt: skip

    for name, settings in (
        ("a huge integer", f'{{"intra": {HUGE}}}'),
        ("2^70", f'{{"intra": {2**70}}}'),
        ("2^31", f'{{"spin_duration_us": {2**31}}}'),
        ("infinity", '{"intra": 1e999}'),
        ("a million threads", '{"intra": 1000000}'),
        ("escapes in a name", json.dumps({NAME: 1})),
        ("escapes in a value", json.dumps({"intra": NAME})),
        ("half a character", '{"intra": "\\ud800"}'),
    ):
        yield case(f"plan with {name}", f'{{"settings": {settings}}}', "compare", "m.onnx", "{file}")
    yield case("plan that is deep", "[" * 100_000, "compare", "m.onnx", "{file}")
    yield case("plan with a huge key", f'{{"{HUGE}": 1}}', "compare", "m.onnx", "{file}")
    yield case("plan with escapes in a rewrite", json.dumps({"rewrites": [{"name": NAME}]}),
               "compare", "m.onnx", "{file}")  # fmt: skip
    yield case("plan with escapes in a provider", json.dumps({"providers": [{"name": NAME}]}),
               "compare", "m.onnx", "{file}", "--json", codes=(3,))  # fmt: skip
    for name, content in (
        ("is deep", "[" * 100_000),
        ("has a huge integer", f'{{"cases": {HUGE}}}'),
        ("has escapes", json.dumps({"cases": NAME})),
        (
            "has a negative size",
            json.dumps(WORKLOAD | {"cases": [CASE | {"inputs": [INPUT | {"shape": [-1, 4]}]}]}),
        ),
        (
            "has a huge size",
            json.dumps(WORKLOAD | {"cases": [CASE | {"inputs": [INPUT | {"shape": [2**60, 4]}]}]}),
        ),
    ):
        yield case(f"workload that {name}", content, "look", "m.onnx", "--workload", "{file}")
    for name, content in (
        ("is deep", "[" * 100_000), ("has escapes", json.dumps({"schema": NAME})),
        ("has a huge integer", f'{{"schema": {HUGE}}}'),
    ):  # fmt: skip
        yield case(f"lock that {name}", content, "lock", "m.onnx", "--check", "{file}")


def _bundles() -> Iterator[Case]:
    for name, fields in (
        ("a name of 5,000 characters", {"model": "m" * 5000}),
        ("a plain name of 5,000 characters", {"plain_model": "m" * 5000}),
        ("a zero byte", {"model": "m\0.onnx"}),
        ("escapes", {"model": NAME}),
        ("a huge integer", {"plan": {"settings": {"intra_op_num_threads": 10**4000}}}),
        ("a million threads", {"plan": {"settings": {"intra_op_num_threads": 10**6}}}),
        ("a huge cap of threads", {"plan": {"settings": {"intra_op_num_threads": f"min({HUGE}, cpus)"}}}),
    ):
        for verb in ("look",) if "plan" in fields else ("look", "report"):
            yield Case(name=f"{verb}: bundle with {name}", make=partial(bundle, **fields), file="b.ortune",
                       command=(verb, "{file}"), codes=REFUSED, longest=3000)  # fmt: skip


def _traces() -> Iterator[Case]:
    def case(
        name: str, *more: str, says: tuple[str, ...] = (), written: tuple[str, ...] = (), **how: Any
    ) -> Case:
        return Case(name=f"trace with {name}", make=partial(trace, **how), file="t.json",
                    command=("profile", "{file}", *more), codes=RUNS, says=says, longest=8000,
                    written=written)  # fmt: skip

    for form in ("text", "json", "markdown"):
        yield case(f"names as {form}", "--format", form, node=NAME, op_name=NAME, provider=NAME)
    yield case("names in a difference", "--against", "{file}", node=NAME)
    yield case("half a character", node="\ud800")
    yield case("names on a page", "--report", "page.html", written=("page.html",), node=NAME, op_name=NAME)
    for form in ("text", "markdown"):
        yield case(f"a name of 1 MB as {form}", "--format", form, node="x" * 1_000_000)
    yield case("an operator of 1 MB", op_name="x" * 1_000_000)
    yield case("a negative duration", took=-50, says=FIRST)
    yield case("a duration of 10^25", took=10**25, says=FIRST)
    yield case("a duration that is no number", took="@NaN@", says=FIRST)
    yield case("a start of 10^25", at=10**25, says=FIRST)
    yield case("no end", cut=300, says=("the trace was truncated",))
    yield case("damage as markdown", "--format", "markdown", took=-50, says=FIRST)


FIRST = ("the trace is damaged: 1 event is left out",)
INPUT = {"name": "x", "dtype": "float", "shape": [1, 4], "role": "data"}
CASE = {"name": "usual", "inputs": [INPUT], "weight": 1.0}
WORKLOAD = {"cases": [CASE]}

CASES: list[Case] = [*_models(), *_names_of_files(), *_no_files(), *_texts(), *_bundles(), *_traces()]
