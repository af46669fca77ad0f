"""``load.py``: needs onnxruntime alone, under any Python that onnxruntime runs on."""

from __future__ import annotations

import ast
from importlib.resources import files
from typing import Any

from ortune.bundle.languages import fill
from ortune.bundle.settings import as_text, is_bound, needs_allocator, no_huge_pages, providers, threads
from ortune.knobs.cpu.transparent_huge_pages import KNOB as HUGE_PAGES
from ortune.records import Applied, BundleInfo, Host, Value


def emit(info: BundleInfo, custom_ops: tuple[str, ...]) -> dict[str, str]:
    """The file ``load.py``."""
    own = [s.value for s in info.applied if s.channel == "call_style"]
    places = {
        "MODEL": repr(info.model),
        "PLAIN_MODEL": repr(info.plain_model if info.hardware_bound else ""),
        "TUNED_ON": literal(tuned_on(info.host)),
        "ORT_VERSION": repr(info.ort_version),
        "PROVIDERS": literal([(n, own) if own else n for n, own in providers(info.plan, info.applied)]),
        "PRELOAD": literal([s.value for s in info.applied if s.channel == "preload"]),
        "NEED_ALLOCATOR": literal(
            [f"{s.knob}={as_text(s.value)}" for s in info.applied if needs_allocator(s, info.applied)]
        ),
        "PROCESS": literal([(s.key, s.value) for s in _of(info, "process") if s.knob != HUGE_PAGES.name]),
        "NO_HUGE_PAGES": repr(no_huge_pages(info.applied)),
        "CUSTOM_OPS": literal(list(custom_ops)),
        "CALL_STYLE": repr(own[0] if own else "run"),
        "ENVIRONMENT": ", ".join(f"{s.key!r}: {_text(s.value)}" for s in _of(info, "env")),
        "SESSION_OPTIONS": _lines(_session_options(info), 4),
        "RUN_OPTIONS": _lines(_run_options(info), 4),
        "ONCE_A_PROCESS": _lines(_once(info), 4),
        "MACHINE": _body("machine.py"),
    }
    return {"load.py": fill("load.py.tmpl", places)}


def _run_options(info: BundleInfo) -> list[str]:
    """Statements of ``run_options``."""
    entries = [f"options.add_run_config_entry({s.key!r}, {_text(s.value)})" for s in _of(info, "run_config")]
    return ["options = ort.RunOptions()", *entries, "return options"] if entries else ["return None"]


def option_lines(settings: tuple[Applied, ...]) -> list[str]:
    """Statements that put session options and config entries on ``options``."""
    lines = []
    for setting in settings:
        if setting.channel == "session_option":
            lines.append(f"options.{setting.key} = {_option(setting)}")
        elif setting.channel == "session_config":
            lines.append(f"options.add_session_config_entry({setting.key!r}, {_text(setting.value)})")
        elif setting.channel == "env_allocator":
            line = "options.add_session_config_entry('session.use_env_allocators', '1')"
            lines += [] if line in lines else [line]
        elif setting.channel == "global_pool":
            lines.append("options.use_per_session_threads = False")
    return lines


def once_lines(settings: tuple[Applied, ...]) -> list[str]:
    """Statements for what belongs to the whole process: the shared allocator and the global pool."""
    arena = {s.key: int(s.value) for s in settings if s.channel == "env_allocator"}
    lines = []
    if arena:
        lines += [
            "memory = ort.OrtMemoryInfo('Cpu', ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)",
            f"ort.create_and_register_allocator(memory, ort.OrtArenaCfg({arena!r}))",
        ]
    pools = [s.value for s in settings if s.channel == "global_pool"]
    return lines + [f"ort.set_global_thread_pool_sizes({expression(value)}, 1)" for value in pools]


def tuned_on(host: Host | None) -> dict[str, Any]:
    """What ``machine.other_hardware`` compares, and the CPUs there were."""
    if host is None:
        return {}
    return {
        "machine": host.machine,
        "cpu": host.cpu,
        "features": list(host.features),
        "cpus": host.effective_cpus,
    }


def expression(value: Value) -> str:
    """A value as Python: a thread count is computed where the code runs."""
    count = threads(value)
    return repr(value) if count is None else f"threads({count}, TUNED_ON.get('cpus', 1))"


def literal(value: Any) -> str:
    """A value as Python source; a mapping one entry a line."""
    if isinstance(value, dict) and value:
        return "{\n" + "".join(f"    {key!r}: {entry!r},\n" for key, entry in value.items()) + "}"
    return repr(value)


def _session_options(info: BundleInfo) -> list[str]:
    """Statements on ``options``; what holds for the tuned machine alone stands behind its own condition."""
    lines = []
    for setting in info.applied:
        own = option_lines((setting,))
        if is_bound(setting):
            # Numbered CPUs: of no use on another machine, an error where there are fewer.
            lines += [f"if tuned_here and cpus() >= TUNED_ON.get('cpus', 1):\n    {line}" for line in own]
        elif setting.knob in info.model_settings:
            # It belongs to the model that is optimised already; the plain one needs ONNX Runtime's default.
            lines += [f"if tuned_model:\n    {line}" for line in own]
        elif needs_allocator(setting, info.applied):
            lines += [f"if not without_allocator(PRELOAD, preloaded()):\n    {line}" for line in own]
        else:
            lines += [line for line in own if line not in lines]
    return lines


def _once(info: BundleInfo) -> list[str]:
    lines = once_lines(info.applied)
    return lines or ["pass"]


def _of(info: BundleInfo, channel: str) -> list[Applied]:
    return [s for s in info.applied if s.channel == channel]


def _option(setting: Applied) -> str:
    if isinstance(setting.value, str) and threads(setting.value) is None:
        # Text is a name in the enumeration that is called as the option is.
        kind = "".join(part.capitalize() for part in setting.key.split("_"))
        return f"ort.{kind}.{setting.value}"
    return expression(setting.value)


def _text(value: Value) -> str:
    return repr(as_text(value)) if threads(value) is None else f"str({expression(value)})"


def _lines(lines: list[str], indent: int) -> str:
    pad = " " * indent
    return "".join(f"{pad}{part}\n" for line in lines for part in line.split("\n"))


def _body(module: str) -> str:
    """The source of a module of this room behind its docstring and imports."""
    source = files("ortune.bundle").joinpath(module).read_text(encoding="utf-8")
    imports = [n for n in ast.parse(source).body if isinstance(n, ast.Import | ast.ImportFrom)]
    return "\n".join(source.splitlines()[imports[-1].end_lineno :]).strip("\n") + "\n"
