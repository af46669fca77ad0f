"""Table of options that users try because other tools have them, with ortune's equivalents."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ortune.catalogue.provider import Provider
from ortune.catalogue.providers import CPU, CUDA, SUFFIX, of_target, providers_with, short_name
from ortune.errors import UsageError

if TYPE_CHECKING:
    from ortune.catalogue.knobs import Knob

_COUNT, _TIME, _SIZE, _NAME, _SHAPE = (
    r"\d+",
    r"\d+(\.\d+)?(us|ms|s|m|h)?",
    r"\d+[kmgKMG]?i?[bB]?",
    r"[\w:.-]+",
    r"\d+(x\d+)*",
)
_FILE = r"[^-].*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """Options of other tools, and ortune's equivalent.

    Attributes:
        flags: Names without leading dashes, separated by spaces, with ``-`` instead of ``_``. Single letters are
            options of onnxruntime_perf_test and OpenVINO's benchmark_app.
        instead: ortune's options with ``{}`` for the value. The first one that the verb has is suggested.
        sample: Example value for the suggestion if the typed value does not match ``takes``.
        takes: Pattern of typed values that the suggestion can repeat; "" if the option takes no value.
        note: Explanation that follows the suggestion.
    """

    flags: str
    instead: tuple[str, ...]
    sample: str = ""
    takes: str = ""
    note: str = ""


_NATIVE = providers_with(lambda p: p.target and not p.in_page and p != CPU)
"""Native execution providers other than the CPU, for which other tools have options such as ``--use_cuda``."""


def _words(provider: Provider) -> tuple[str, ...]:
    """Return the names that users write for a provider."""
    return tuple(dict.fromkeys((provider.target, short_name(provider.name).lower(), *provider.aliases)))


def _options_of(provider: Provider) -> tuple[str, ...]:
    """Return the options that select a provider: ``--runtime`` if its build needs no special hardware, ``--target``."""
    return (*(("--runtime",) if provider.builds and not provider.hardware else ()), "--target")


GUESSES = (
    Guess(
        flags="m model model-path input-model onnx", instead=(),
        note="the model is an argument, without an option",
    ),
    Guess(
        flags="baseline base reference", instead=(), note="the first model is the baseline: ortune compare A.onnx B.onnx",
    ),
    Guess(flags="hint", instead=("--objective {}",), sample="latency", takes="latency|throughput"),
    Guess(
        flags="x threads num-threads n-threads nthreads intra-op intra-threads intra-op-threads",
        instead=("--set intra={}",), sample="4", takes=_COUNT,
    ),
    Guess(
        flags="y inter-op inter-threads inter-op-threads",
        instead=("--set inter={}",), sample="2", takes=_COUNT, note="used only with --set mode=parallel",
    ),
    Guess(
        flags="opt-level optimization-level optimisation-level graph-optimization",
        instead=("--set level={}",), sample="all", takes="disable|basic|extended|layout|all",
    ),
    Guess(flags="parallel", instead=("--set mode=parallel",)),
    Guess(flags="no-spin", instead=("--set spin=0",)),
    Guess(
        flags="b batch batch-size bs",
        instead=("--dim batch={}",), sample="8", takes=_COUNT, note="by the dimension's name in the model",
    ),
    Guess(
        flags="seq seq-len seq-length sequence sequence-length",
        instead=("--dim seq={}",), sample="128", takes=_COUNT, note="by the dimension's name in the model",
    ),
    Guess(
        flags="shapes input-shape input-shapes input-size size",
        instead=("--shape input:{}",), sample="1x3x224x224", takes=_SHAPE, note="by the input's name in the model",
    ),
    Guess(
        flags="e d provider providers ep eps execution-provider execution-providers backend device accelerator",
        instead=("--target {}",), sample=CUDA.target, takes=_NAME,
    ),
    *(
        Guess(
            flags=" ".join(f"{word} use-{word}" for word in _words(provider)),
            instead=tuple(f"{option} {provider.target}" for option in _options_of(provider)),
        )
        for provider in _NATIVE
    ),
    Guess(
        flags="fp16 float16 half", instead=("--allow numerics", "--rewrite float32-to-float16"),
        note="for GPUs; outputs change, and their error is reported",
    ),
    Guess(flags="rewrite", instead=(), note="ortune rewrite MODEL NAME applies a rewrite to a file"),
    Guess(
        flags="bf16 bfloat16", instead=(),
        note=("ortune does not convert to bfloat16; convert it yourself, then run ortune compare model.onnx "
            "converted.onnx"),
    ),
    Guess(
        flags="precision", instead=(),
        note="ortune quantize MODEL chooses it layer by layer; --rewrite float32-to-float16 converts all of a model",
    ),
    Guess(
        flags="int8 uint8 quantize quantise quantized quantization",
        instead=("--allow numerics", "--rewrite dynamic-int8"),
        note="outputs change, and their error is reported",
    ),
    Guess(
        flags="i input input-file input-data data feed feeds loadinputs load-inputs",
        instead=("--inputs {}",), sample="inputs.npz", takes=_FILE,
    ),
    Guess(
        flags="r niter iterations iters iter num-runs n-runs runs repeat repeats reps loops times",
        instead=("--runs {}", "--budget 2m"), sample="100", takes=_COUNT,
        note="the number of runs follows from the noise",
    ),
    Guess(
        flags="warmup warm-up warmups warmup-runs warmup-iters",
        instead=(), note="omit it, since every process is warmed up automatically",
    ),
    Guess(
        flags="t duration time max-time timeout time-limit",
        instead=("--budget {}",), sample="2m", takes=_TIME,
    ),
    Guess(flags="nstreams streams", instead=("--set openvino_streams={}",), sample="2", takes=_COUNT),
    Guess(flags="c nireq concurrency clients workers", instead=("--callers {}",), sample="4", takes=_COUNT),
    Guess(flags="cpus cores cpu-limit", instead=("--cpus {}",), sample="2", takes=r"\d+(\.\d+)?"),
    Guess(flags="mem ram memory-limit", instead=("--memory {}",), sample="2g", takes=_SIZE),
    Guess(
        flags="host hosts on", instead=(),
        note="this command runs on this machine; bench, compare --each, tune, look, quantize and history run on hosts",
    ),
    Guess(
        flags="custom-op custom-ops-library custom-op-library",
        instead=("--custom-ops {}",), sample="libops.so", takes=_FILE,
    ),
)  # fmt: skip


COMMANDS = {
    "bench": "benchmark perf perf-test time latency",
    "bisect": "debug",
    "check": "fix lint validate",
    "compare": "diff",
    "convert": "export",
    "explain": "rule",
    "look": "info inspect show summary view",
    "profile": "trace",
    "quantize": "quantise calibrate",
    "rewrite": "fuse optimiser shrink simplify slim surgeon",
    "skeleton": "anonymise strip",
    "tune": "auto autotune optimise search",
}
"""Maps ortune's commands to other tools' names for them, in British spelling."""


def command_instead(word: str) -> str:
    """Return the ortune command that corresponds to another tool's command; "" if there is none."""
    spelled = re.sub("iz(er?)$", r"is\1", word.lower())
    return next((name for name, words in COMMANDS.items() if spelled in words.split()), "")


def instead(flag: str, arguments: Sequence[str], offered: Collection[str]) -> str:
    """Return ortune's equivalent of an unknown option; "" if there is no suggestion.

    Args:
        flag: The option as written.
        arguments: The whole command line.
        offered: The options of the verb.
    """
    name = flag.lstrip("-").lower().replace("_", "-")
    for guess in GUESSES:
        if name in guess.flags.split():
            value = _value(flag, arguments)
            known = (_supported_option(guess, value, offered), guess.note)
            return " - ".join(filter(None, known)) or _in_tune(guess, value)
    return _setting(name, _value(flag, arguments)) if "--set" in offered else ""


def _supported_option(guess: Guess, value: str, offered: Collection[str]) -> str:
    """Return the first option of a guess that the verb offers, and its ``--b-`` variant if the verb has one."""
    for text in guess.instead:
        option, _, rest = text.partition(" ")
        # Commands that compare two sides take rewrites by name; their --allow does not accept "numerics".
        if option not in offered or (text == "--allow numerics" and "--b-rewrite" in offered):
            continue
        if not (guess.takes and re.fullmatch(guess.takes, value)):
            value = guess.sample
        written = rest.format(shlex.quote(value))
        if option == "--target":
            option, written = _target(written, offered)
        beside = f"--b-{option.removeprefix('--')}"
        alone = f", or {beside} {written} for the second side only" if beside in offered else ""
        return f"write {option} {written}{alone}"
    return ""


def _in_tune(guess: Guess, value: str) -> str:
    """Return a hint that only ``ortune tune`` has an equivalent option; "" if it has none either."""
    from ortune.cli.verbs import options_of
    from ortune.verbs._shared.spelling import Option, option_fields

    fields = option_fields(options_of("tune").Options)
    tuning = {field.spelling.flag for field in fields if isinstance(field.spelling, Option)}
    told = _supported_option(guess, value, tuning).removeprefix("write ")
    return f"only ortune tune has {told}" if told else ""


def _target(name: str, offered: Collection[str]) -> tuple[str, str]:
    """Return the option and the value that select the execution provider with this name or alias, CUDA if unknown."""
    word = name.lower().removesuffix(SUFFIX.lower()).partition(":")[0].strip("_-")
    exact = of_target(word)
    provider = (
        exact
        if exact.target
        else next((p for p in providers_with(lambda p: p.target) if word in _words(p)), CUDA)
    )
    option = next(
        (option_name for option_name in _options_of(provider) if option_name in offered), "--target"
    )
    return option, provider.target


def _setting(name: str, value: str) -> str:
    """Return how to write an option with a setting's name as ``--set NAME=VALUE``; "" if no setting has that name."""
    from ortune.catalogue import knobs

    written = name.replace("-", "_")
    for knob in knobs.all_knobs().values():
        if written in (knob.name, *knob.aliases):
            sample = knob.choices[0] if knob.choices else "VALUE" if knob.kind == "text" else "1"
            return f"write --set {written}={value if _takes(knob, value) else sample}"
    return ""


def _takes(knob: Knob, value: str) -> bool:
    from ortune.catalogue import knobs

    try:
        knobs.parse_value(knob, value)
    except UsageError:
        return False
    return bool(value)


def _value(flag: str, arguments: Sequence[str]) -> str:
    """Return the value of a flag; "" if the flag has no value."""
    for this, after in zip(arguments, [*arguments[1:], ""], strict=True):
        if this.startswith(flag + "="):
            return this.partition("=")[2]
        if this == flag:
            return "" if after.startswith("-") else after
    return ""
