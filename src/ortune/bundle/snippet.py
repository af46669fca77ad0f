"""The few lines of Python to paste where the model is loaded today."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ortune.bundle.languages._source import process_line
from ortune.bundle.languages.python import literal, once_lines, option_lines
from ortune.bundle.settings import as_text, providers, resolve, threads
from ortune.records import Applied, Plan

TOOLS = {"affinity": "taskset -c", "nice": "nice -n"}
"""Settings of the process that a command before the program's own makes."""


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
    settings = tuple(_counted(setting) for setting in resolve(plan))
    lines = [*_start(settings, libraries or {}), *_by_hand(settings), "import onnxruntime as ort", ""]
    lines += once_lines(settings)
    options = option_lines(settings)
    lines += ["options = ort.SessionOptions()", *dict.fromkeys(options)] if options else []
    given = ", options" if options else ""
    chosen = literal([(name, own) if own else name for name, own in providers(plan, settings)])
    lines.append(f"session = ort.InferenceSession({model!r}{given}, providers={chosen})")
    runs = [s for s in settings if s.channel == "run_config"]
    if runs:
        lines.append("run_options = ort.RunOptions()  # session.run(names, feeds, run_options)")
        lines += [f"run_options.add_run_config_entry({s.key!r}, {as_text(s.value)!r})" for s in runs]
    if any((s.channel, s.value) == ("call_style", "io_binding") for s in settings):
        lines.append(
            "binding = session.io_binding()  # keep it, and call as run() of the bundle's load.py does"
        )
    return "\n".join(lines)


def _counted(setting: Applied) -> Applied:
    count = threads(setting.value)
    if count is None:
        return setting
    return msgspec.structs.replace(setting, value=count)


def _start(settings: tuple[Applied, ...], libraries: Mapping[str, str]) -> list[str]:
    """A comment with what the process must be started with."""
    words = [f"{s.key}={as_text(s.value)}" for s in settings if s.channel == "env"]
    preloads = [as_text(s.value) for s in settings if s.channel == "preload"]
    words += [f"LD_PRELOAD={libraries.get(name, f'lib{name}.so')}" for name in preloads]
    words += [f"{TOOLS[s.key]} {s.value}" for s in settings if s.channel == "process" and s.key in TOOLS]
    return [f"# start with: {' '.join(words)} python ..."] if words else []


def _by_hand(settings: tuple[Applied, ...]) -> list[str]:
    """A comment for each setting of the process that no command makes."""
    own = [s for s in settings if s.channel == "process" and s.key not in TOOLS]
    return [f"# {s.knob}={as_text(s.value)}: {line}" for s in own if (line := process_line(s))]
