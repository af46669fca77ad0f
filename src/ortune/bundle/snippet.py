"""Python code to use where the model is loaded today."""

from __future__ import annotations

import pprint
from collections.abc import Mapping, Sequence

from ortune.bundle.languages.python import LANGUAGE, as_session_takes, process_statements
from ortune.bundle.settings import (
    COMMANDS,
    as_assignment,
    measured,
    needs_allocator,
    of_channel,
    process_line,
    providers,
    resolve,
)
from ortune.bundle.shared import as_text
from ortune.catalogue.captured_graph import captures
from ortune.catalogue.named import ROWS_PER_RUN
from ortune.catalogue.providers import find
from ortune.records import Applied, Plan

_WIDTH = 100  # maximum characters of a line


def python_lines(
    plan: Plan,
    model: str = "model.onnx",
    libraries: Mapping[str, str] | None = None,
    custom_ops: Sequence[str] = (),
    plugins: Mapping[str, str] | None = None,
) -> str:
    """Return the plan as Python: session options, the session, and comments on how to start the program.

    Args:
        plan: The plan. Its thread counts may be numbers or ``min(n, cpus)``; they become the numbers for this machine.
        model: Path of the model as the user writes it.
        libraries: Path of each allocator's library on this machine, since distributions seldom have a plain
            ``libNAME.so`` and a wrong name only causes a warning.
        custom_ops: Libraries with the model's custom operators.
        plugins: Plug-in wheels of this build by execution provider: "onnxruntime-ep-webgpu 0.4.0".

    Returns:
        The lines, without a final line break.
    """
    settings = measured(resolve(plan))
    options = [line for s in settings if not needs_allocator(s, settings) and (line := LANGUAGE.statement(s))]
    for_allocator = [
        line for s in settings if needs_allocator(s, settings) and (line := LANGUAGE.statement(s))
    ]
    lines = [*_start(settings, libraries or {}), *(["import os", ""] if for_allocator else [])]
    chosen = as_session_takes(providers(plan, settings, keeps_buffers=False))
    imports, registered, on_devices = _plugged(chosen, plugins or {})
    lines += ["import onnxruntime as ort", *imports, "", *process_statements(settings), *registered]
    options += [f"options.register_custom_ops_library({library!r})" for library in custom_ops]
    options = [*dict.fromkeys(options), *_with_allocator(for_allocator, settings), *on_devices]
    lines += ["options = ort.SessionOptions()", *options] if options else []
    if captures(plan, settings):
        lines.append("# this code does not replay a captured graph; use run() of the bundle's load.py")
    arguments = [repr(model), *(["options"] if options else [])]
    named_providers = {} if on_devices else {"providers": chosen}
    lines += _call("session = ort.InferenceSession", *arguments, **named_providers)
    runs = of_channel(settings, "run_config")
    if runs:
        lines.append("run_options = ort.RunOptions()  # session.run(names, feeds, run_options)")
        lines += [f"run_options.add_run_config_entry({s.key!r}, {as_text(s.value)!r})" for s in runs]
    if any((s.channel, s.value) == ("call_style", "io_binding") for s in settings):
        lines += [
            "binding = session.io_binding()  # create it once and reuse it; session.run does not use it",
            "# per call: binding.bind_cpu_input(name, array) per input, binding.bind_output(name) per output,",
            f"#     session.run_with_iobinding(binding{', run_options' if runs else ''}), "
            "binding.copy_outputs_to_cpu()",
        ]
    most_rows = [s.value for s in settings if s.key == ROWS_PER_RUN.key]
    if most_rows:
        lines += [
            f"# per call of session.run: at most {most_rows[0]} rows of a batch, rows of about equal length together;",
            "#     run() of the bundle's load.py splits a batch and puts the outputs together",
        ]
    return "\n".join(lines)


def _plugged(chosen: Sequence[object], plugins: Mapping[str, str]) -> tuple[list[str], list[str], list[str]]:
    """Return the code for plug-in providers: imports, statements that find the devices, statements on ``options``."""
    imports, before, on = [], [], []
    for spec in chosen:
        name, own = spec if isinstance(spec, tuple) else (str(spec), {})
        if name not in plugins:
            continue
        own = dict(own)
        # The same choice as in ortune's worker.
        kind = (own.pop("device_type", "") or find(name).device).upper()
        is_it = (
            f"{kind!r} in (d.device.type.name, d.ep_metadata.get('ov_device'))"
            if kind
            else "d.device.type.name != 'CPU'"
        )
        package = plugins[name].split()[0].replace("-", "_")
        imports.append(f"import {package}")
        before += [
            *_call("ort.register_execution_provider_library", repr(name), f"{package}.get_library_path()"),
            f"devices = [d for d in ort.get_ep_devices() if d.ep_name == {name!r}]",
            f"device = max(devices, key=lambda d: {is_it})",
        ]
        on += _call("options.add_provider_for_devices", "[device]", own)
    return imports, before, on


def _call(function: str, *arguments: object, **named: object) -> list[str]:
    """Format a call, with one line per argument if it is too long; text is code, all other values become literals."""
    pairs = [*(("", value) for value in arguments), *((f"{name}=", value) for name, value in named.items())]
    texts = [f"{name}{value if isinstance(value, str) else repr(value)}" for name, value in pairs]
    line = f"{function}({', '.join(texts)})"
    if len(line) <= _WIDTH:
        return [line]
    lines = [f"{function}("]
    for name, value in pairs:
        text = value
        if not isinstance(value, str):
            text = pprint.pformat(value, width=_WIDTH - 5 - len(name), sort_dicts=False)
        first, *rest = str(text).splitlines()
        # pprint aligns continuation lines with the first bracket, which follows the name here.
        lines += [f"    {name}{first}", *(f"    {' ' * len(name)}{more}" for more in rest)]
        lines[-1] += ","
    return [*lines, ")"]


def _with_allocator(statements: Sequence[str], settings: tuple[Applied, ...]) -> list[str]:
    """Return statements that are valid only with the plan's allocator, conditional on it being preloaded."""
    if not statements:
        return []
    (name, *_) = [as_text(s.value) for s in of_channel(settings, "preload")]
    return [
        f"if {name!r} in os.environ.get('LD_PRELOAD', ''):  # slower without {name}",
        *(f"    {line}" for line in statements),
    ]


def _start(settings: tuple[Applied, ...], libraries: Mapping[str, str]) -> list[str]:
    """Return comments on how to start the process, and on process settings that no command can make."""
    preloads = [as_text(s.value) for s in of_channel(settings, "preload")]
    process = of_channel(settings, "process")
    words = [f"{s.key}={as_text(s.value)}" for s in of_channel(settings, "env")]
    words += [f"LD_PRELOAD={libraries.get(name, f'lib{name}.so')}" for name in preloads]
    words += [f"{COMMANDS[s.key]} {s.value}" for s in process if s.key in COMMANDS]
    start = [f"# start with: {' '.join(words)} python ..."] if words else []
    by_hand = [s for s in process if s.key not in COMMANDS]
    return [*start, *(f"# {as_assignment(s)}: {line}" for s in by_hand if (line := process_line(s)))]
