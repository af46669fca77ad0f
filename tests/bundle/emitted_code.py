"""Emitted code of many plans: every setting one at a time, all at once, every provider."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

from api_calls import LANGUAGES

from ortune import platform
from ortune.bundle.languages import emit_all
from ortune.bundle.settings import portable, resolve
from ortune.catalogue import knobs
from ortune.catalogue.knobs import Knob
from ortune.records import BundleInfo, Host, Plan, ProviderSpec, Value

HOSTILE = "it's \"m\\u000aö\n*/ ${x} \\(y) ??/ %s {0} \u2028 \x85 \x01é😀.onnx"
PROVIDERS = (
    ProviderSpec(name="CUDAExecutionProvider", options={"device_id": "0"}),
    ProviderSpec(name="TensorrtExecutionProvider"),
    ProviderSpec(name="OpenVINOExecutionProvider", options={"device_type": "CPU", "num_streams": "2"}),
    ProviderSpec(name="XnnpackExecutionProvider", options={'a"$b': "\\"}),
    ProviderSpec(name="DmlExecutionProvider", options={"device_id": "1"}),
    ProviderSpec(name="ImaginaryExecutionProvider"),
    ProviderSpec(name="CPUExecutionProvider"),
)


def values(knob: Knob) -> list[Value]:
    """Values that take every path of an emitter."""
    if knob.kind == "bool":
        return [True, False]
    if knob.kind == "int":
        return [(knob.minimum or 0) + 3]
    texts = {"session.intra_op_thread_affinities": ["1;2-3", HOSTILE], "affinity": ["0,2-3"]}
    return list(knob.choices) or list(texts.get(knob.key, [HOSTILE]))


def emitted(
    settings: dict[str, Value],
    providers: tuple[ProviderSpec, ...] = (),
    model: str = "net.onnx",
    *,
    bound: bool = False,
    custom_ops: tuple[str, ...] = (),
    requirements: tuple[str, ...] = (),
    host: Host | None = None,
    files: Collection[str] = tuple(LANGUAGES),
) -> dict[str, str]:
    """The files for a plan; of the compiled languages, unless said."""
    plan = portable(Plan(settings=settings, providers=providers))
    info = BundleInfo(
        schema="ortune/bundle/1", model=model, sha256="", plan=plan, applied=resolve(plan),
        host=host or platform.host(),
        plain_model=f"plain/{model}" if bound else "", hardware_bound=bound, ort_version="1.31.1",
        requirements=requirements,
        model_settings=("graph_optimization_level",) if bound else (),
    )  # fmt: skip
    return {name: text for name, text in emit_all(info, custom_ops).items() if name in files}


def single() -> dict[str, dict[str, Value]]:
    """Every setting alone, with each of its values."""
    return {
        f"{name}={i}": {name: value}
        for name, knob in knobs.all_knobs().items()
        if not knob.is_only_in_browsers
        for i, value in enumerate(values(knob))
    }


def owners(settings: dict[str, Value]) -> tuple[ProviderSpec, ...]:
    """The execution providers, beside the CPU's, whose settings these are."""
    names = {knobs.find(name).provider for name in settings} - {""}
    return tuple(ProviderSpec(name=name) for name in sorted(names))


_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|\b\d+\b')


def forms(file: str) -> list[str]:
    """The file for every plan that differs in more than texts, numbers and comments; of each form that with the most
    escapes."""
    found: dict[str, str] = {}
    for text in sorted((files[file] for files in plans().values()), key=lambda text: text.count("\\")):
        found[_TEXT.sub("", text)] = text
    return list(found.values())


@cache
def plans() -> dict[str, dict[str, str]]:
    """Every setting one at a time, all at once, and no setting."""
    native = {name: knob for name, knob in knobs.all_knobs().items() if not knob.is_only_in_browsers}
    found = {name: emitted(settings, owners(settings)) for name, settings in single().items()}
    everything = {
        name: knob.choices[-1] if knob.choices else values(knob)[0] for name, knob in native.items()
    }
    return {
        "default": emitted({}),
        **found,
        **{f"provider {p.name}": emitted({}, (p,)) for p in PROVIDERS},
        "everything": emitted(everything, PROVIDERS, HOSTILE, bound=True, custom_ops=("custom_ops/0-$a.so",)),
        "bound": emitted({"graph_optimization_level": "basic"}, bound=True),
    }
