"""The few lines of Python to paste where the model is loaded today."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortune.bundle.languages.python import LANGUAGE, as_session_takes, once
from ortune.bundle.settings import (
    COMMANDS,
    measured,
    named,
    needs_allocator,
    of,
    process_line,
    providers,
    resolve,
)
from ortune.bundle.shared import as_text
from ortune.knobs.captured_graph import captures
from ortune.records import Applied, Plan


def python_lines(
    plan: Plan,
    model: str = "model.onnx",
    libraries: Mapping[str, str] | None = None,
    custom_ops: Sequence[str] = (),
) -> str:
    """The plan as Python: session options, the session, and what must stand before the program's command.

    Args:
        plan: Thread counts may be numbers or ``min(n, cpus)``; here they are the numbers of this machine.
        model: Path of the model, as the user writes it.
        libraries: Where each allocator's library lies on this machine: distributions seldom ship the bare
            ``libNAME.so``, and a wrong name is only warned of.
        custom_ops: Libraries with the model's custom operators.

    Returns:
        Lines without a final line break.
    """
    settings = measured(resolve(plan))
    options = [line for s in settings if not needs_allocator(s, settings) and (line := LANGUAGE.statement(s))]
    for_allocator = [
        line for s in settings if needs_allocator(s, settings) and (line := LANGUAGE.statement(s))
    ]
    lines = [*_start(settings, libraries or {}), *(["import os", ""] if for_allocator else [])]
    lines += ["import onnxruntime as ort", "", *once(settings)]
    options += [f"options.register_custom_ops_library({library!r})" for library in custom_ops]
    options = [*dict.fromkeys(options), *_with_allocator(for_allocator, settings)]
    lines += ["options = ort.SessionOptions()", *options] if options else []
    if captures(plan, settings):
        lines.append("# this code does not replay a captured graph; use run() of the bundle's load.py")
    chosen = as_session_takes(providers(plan, settings, keeps_buffers=False))
    lines.append(
        f"session = ort.InferenceSession({model!r}{', options' if options else ''}, providers={chosen!r})"
    )
    runs = of(settings, "run_config")
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
    return "\n".join(lines)


def _with_allocator(statements: Sequence[str], settings: tuple[Applied, ...]) -> list[str]:
    """Statements that are right only with the plan's allocator, which stands in no line that is pasted."""
    if not statements:
        return []
    (name, *_) = [as_text(s.value) for s in of(settings, "preload")]
    return [
        f"if {name!r} in os.environ.get('LD_PRELOAD', ''):  # slower without {name}",
        *(f"    {line}" for line in statements),
    ]


def _start(settings: tuple[Applied, ...], libraries: Mapping[str, str]) -> list[str]:
    """Comments: what the process must be started with, and each setting of it that no command makes."""
    preloads = [as_text(s.value) for s in of(settings, "preload")]
    process = of(settings, "process")
    words = [f"{s.key}={as_text(s.value)}" for s in of(settings, "env")]
    words += [f"LD_PRELOAD={libraries.get(name, f'lib{name}.so')}" for name in preloads]
    words += [f"{COMMANDS[s.key]} {s.value}" for s in process if s.key in COMMANDS]
    start = [f"# start with: {' '.join(words)} python ..."] if words else []
    by_hand = [s for s in process if s.key not in COMMANDS]
    return [*start, *(f"# {named(s)}: {line}" for s in by_hand if (line := process_line(s)))]
