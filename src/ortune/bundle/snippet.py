"""The few lines of Python to paste where the model is loaded today."""

from __future__ import annotations

from collections.abc import Mapping

from ortune.bundle.languages.python import LANGUAGE, given, once
from ortune.bundle.settings import COMMANDS, measured, named, of, process_line, providers, resolve
from ortune.bundle.shared import as_text
from ortune.records import Applied, Plan


def python_lines(plan: Plan, model: str = "model.onnx", libraries: Mapping[str, str] | None = None) -> str:
    """The plan as Python: session options, the session, and what must stand before the program's command.

    Args:
        plan: Thread counts may be numbers or ``min(n, cpus)``; here they are the numbers of this machine.
        model: Path of the model, as the user writes it.
        libraries: Where each allocator's library lies on this machine: distributions seldom ship the bare
            ``libNAME.so``, and a wrong name is only warned of.

    Returns:
        Lines without a final line break.
    """
    settings = measured(resolve(plan))
    options = [line for setting in settings if (line := LANGUAGE.statement(setting))]
    lines = [*_start(settings, libraries or {}), "import onnxruntime as ort", "", *once(settings)]
    lines += ["options = ort.SessionOptions()", *dict.fromkeys(options)] if options else []
    chosen = given(providers(plan, settings))
    lines.append(
        f"session = ort.InferenceSession({model!r}{', options' if options else ''}, providers={chosen!r})"
    )
    runs = of(settings, "run_config")
    if runs:
        lines.append("run_options = ort.RunOptions()  # session.run(names, feeds, run_options)")
        lines += [f"run_options.add_run_config_entry({s.key!r}, {as_text(s.value)!r})" for s in runs]
    if any((s.channel, s.value) == ("call_style", "io_binding") for s in settings):
        lines.append(
            "binding = session.io_binding()  # keep it, and call as run() of the bundle's load.py does"
        )
    return "\n".join(lines)


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
