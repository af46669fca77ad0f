"""Code shared by the languages: expressing a plan as source code, and notes on settings that a binding cannot make.

A language is a table (``Language``) and the template of its file. Values are inserted as literals, or into comments as
one line of ASCII, so they cannot end the literal or the comment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ortune.bundle.languages._instead import INSTEAD
from ortune.bundle.languages._literals import comment
from ortune.bundle.languages._templates import templates
from ortune.bundle.machine import PACKAGES
from ortune.bundle.settings import (
    HUGE_PAGES,
    CacheOption,
    arena,
    as_assignment,
    cache_folder_in,
    caches,
    is_capture,
    is_default,
    names_cpus,
    needs_allocator,
    no_huge_pages,
    of_channel,
    preload,
    process_line,
    providers,
    tuned_on,
)
from ortune.bundle.shared import as_text, thread_cap
from ortune.catalogue.captured_graph import captures
from ortune.catalogue.named import ROWS_PER_RUN
from ortune.catalogue.provider import Bindings
from ortune.catalogue.providers import CPU, all_providers, find
from ortune.records import Applied, BundleInfo, Value

MACHINES = {"AMD64": "x86_64", "x64": "x86_64", "arm64": "aarch64", "ARM64": "aarch64"}
"""Canonical names of architectures, keyed by the other names that operating systems use."""

_ROWS = ROWS_PER_RUN.key


def spelled(binding: Callable[[Bindings], str]) -> dict[str, str]:
    """Map each provider to the name that a field of ``Bindings`` contains for it; providers without one are omitted."""
    return {p.name: own for p in all_providers() if (own := binding(p.bindings))}


BY_NAME = spelled(lambda b: b.by_name)
"""Names by which ONNX Runtime's C API appends providers; releases before 1.22 have only these short names."""

OPTIONS_CLASS = spelled(lambda b: b.options_class)
"""Names in options classes, for the providers that have an options class."""

LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_LAYOUT", "ORT_ENABLE_ALL")
MODES = ("ORT_SEQUENTIAL", "ORT_PARALLEL")

DEVICE = "device_type"
"""The option that names the kind of device; for a plug-in, the device itself is passed instead."""


class EmittedProvider(NamedTuple):
    """An execution provider with its options, and the binding's method and name for appending it."""

    name: str
    options: Mapping[str, str]
    way: str
    own: str


@dataclass(frozen=True, kw_only=True)
class Language:
    """The spelling of a plan in one language, and the features that its binding lacks; ``{}`` marks values.

    Attributes:
        file: Name of the emitted file, and of its template.
        quote: Writes a text as a literal.
        count: Expression for the number of threads to start, from the measured number.
        text: Expression that converts a number to text.
        when: Format of a conditional statement, from its condition and the statement.
        tuned, enough, allocator: Conditions "this is the tuned model", "this is the tuned CPU, with at least as many
            CPUs" and "the plan's allocator is loaded".
        options: Statements for session options, keyed by ONNX Runtime's Python name; a pair has the statements for off
            and on.
        any_option: Statement for every other session option, with its ``key``.
        stored: Expression for the folder of compiled models: the caller's, or else the plan's.
        within: Expression for a JSON text that contains this folder, from the text before it, the folder, and the text
            after it.
        words: The language's names of ONNX Runtime's levels and modes.
        config, run_config, custom_ops, variable: Statement for one entry of the session or run configuration, for one
            library, or for one environment variable.
        local_pool: Statement on a session's options that selects the global thread pool.
        end: Terminator of a statement.
        providers: For each method of appending a provider, a mapping from the providers that it supports to the
            binding's names.
        takes: Options that the binding supports, by provider; all options of a missing provider are supported.
        lacks: Features that the binding does not support: channels, "affinities", "custom_ops" and huge pages.
        plugs: Whether the code can register a plug-in's library that the caller names.
        binds: Whether the code can call a session through I/O binding.
        splits: Whether the code can split a batch into calls with few rows.
        keeps_buffers: Whether the code can keep inputs and outputs on the device, as needed to replay a captured graph.
        instead: Alternatives to the lacking features, if they differ from ``INSTEAD``.
        default: Name of the template for a plan that needs only the model; "" for the usual one.
        more: Further variables of the template.
    """

    name: str
    file: str
    quote: Callable[[Any], str]
    count: str = "threads({})"
    text: str
    when: str
    tuned: str
    enough: str = ""
    allocator: str = ""
    bools: tuple[str, str] = ("false", "true")
    options: Mapping[str, str | tuple[str, str]]
    any_option: str = ""
    stored: str = ""
    within: str = ""
    words: Mapping[str, str]
    config: str = ""
    run_config: str = ""
    custom_ops: str = ""
    variable: str
    local_pool: str = ""
    end: str = ";"
    providers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    takes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lacks: frozenset[str] = frozenset()
    plugs: bool = False
    binds: bool = False
    splits: bool = False
    keeps_buffers: bool = False
    instead: Mapping[str, str] = field(default_factory=dict)
    default: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)

    def emit(self, info: BundleInfo, custom_ops: Sequence[str]) -> str:
        """Return the text of the language's file for a bundle."""
        name = self.default if self.default and is_default(info, custom_ops) else self.file
        return templates().get_template(f"{name}.j2").render(self._places(info, custom_ops), **self.more)

    def _places(self, info: BundleInfo, custom_ops: Sequence[str]) -> dict[str, Any]:
        """Return the variables of the template."""
        host, applied = info.host, info.applied
        notes = self.notes(info, custom_ops)
        names = [] if "preload" in self.lacks else [as_text(s.value) for s in of_channel(applied, "preload")]
        preloads = [(name, preload(name)) for name in names]
        packages = {name: PACKAGES.get(name, name) for name in names}
        asked = ", ".join(f"{name} (Debian: apt install {package})" for name, package in packages.items())
        needed = [as_assignment(s) for s in applied if needs_allocator(s, applied)]
        stays = "; the arena stays on" if needed else ""
        start = [f"{s.key}={_plain(s.value)}" for s in of_channel(applied, "env")]
        start += [f'LD_PRELOAD="{find}"' for _, find in preloads]
        pinned = [as_text(s.value) for s in of_channel(applied, "session_config") if names_cpus(s)]
        return {
            "q": self.quote,
            "texts": lambda values: ", ".join(map(self.quote, values)),
            "pairs": lambda pairs, form: ", ".join(form.format(*map(self.quote, pair)) for pair in pairs),
            "lines": lines,
            "comment": comment,
            "info": info,
            "claim": claim(info),
            "untouched": info.plain_model or info.model,
            "beside_cpu": any(name != CPU.name for name in info.plan.provider_names),
            "plain_model": info.plain_model if info.hardware_bound else "",
            "machine": MACHINES.get(host.machine, host.machine) if host else "",
            "cpu": host.cpu if host else "",
            "cpus": host.effective_cpus if host else 1,
            "features": host.features if host else (),
            "tuned_on": tuned_on(host),
            "cannot": [f"{setting}: {do}" for setting, do in notes],
            # Two lines per note: the setting, and the alternative.
            "cannot_comments": [f"// {comment(one)}\n//     {comment(do)}" for one, do in notes],
            "start_comments": [
                *(f"// Start the process with: {comment(line)}" for line in start),
                *(
                    f"// Stores the compiled model in {one.folder} of the working directory, "
                    "or in the folder passed to load."
                    for one in self._caches(info)
                ),
            ],
            "preloads": preloads,
            "packages": packages,
            "without_allocator": f"allocator not loaded: {asked}{stays}" if names else "",
            "need_allocator": needed,
            "no_huge_pages": no_huge_pages(applied),
            "process": [(s.key, s.value) for s in of_channel(applied, "process") if s.key != HUGE_PAGES],
            "call_style": next((s.value for s in of_channel(applied, "call_style") if s.key != _ROWS), "run"),
            "most_rows": next((s.value for s in of_channel(applied, "call_style") if s.key == _ROWS), None),
            "variables": [self._entry(self.variable, s) for s in of_channel(applied, "env")],
            "options": self.statements(info),
            "entries": [
                (s.key, self.text_of(s.value))
                for s in of_channel(applied, "session_config")
                if not names_cpus(s) and not self._drops(s)
            ],
            "levels": any(s.key == "graph_optimization_level" for s in of_channel(applied, "session_option")),
            "custom_ops": [self.custom_ops.format(self.quote(name)) + self.end for name in custom_ops],
            "libraries": list(custom_ops),
            "run_options": [self._entry(self.run_config, s) for s in of_channel(applied, "run_config")],
            "pool": "".join(self.number(s.value) for s in of_channel(applied, "global_pool")),
            "arena": arena(applied),
            "pinned": pinned[0] if pinned else None,
            "specs": providers(info.plan, applied, keeps_buffers=self.keeps_buffers),
            "caches": caches(info.plan, applied),
            "cached": self._caches(info),
            "plugged_in": self._plugged_in(info),
            "own_options": lambda provider: self._options(info, provider),
            "own_pairs": lambda provider, form: _pairs(self._options(info, provider), form),
            "plugin_pairs": lambda provider, form: _pairs(self._options(info, provider, DEVICE), form),
            "device": _device,
            "device_memory": find(info.plan.provider_names[0]).memory,
            "captures": captures(info.plan, applied),
            "providers": self._appended(info),
        }

    def statements(self, info: BundleInfo) -> list[str]:
        """Return statements on ``options``; those that are valid only on the tuned machine are conditional."""
        statements: list[str] = []
        for setting in info.applied:
            line = self.statement(setting)
            if not line or line in statements:
                continue
            if names_cpus(setting):
                # Useless on another machine, and an error with fewer CPUs.
                line = self.when.format(self.enough, line)
            elif setting.knob in info.model_settings:
                # Only for the already optimized model; the plain one needs the default.
                line = self.when.format(self.tuned, line)
            elif needs_allocator(setting, info.applied):
                line = self.when.format(self.allocator, line)
            statements.append(line)
        return statements

    def statement(self, setting: Applied) -> str:
        """Return one setting as a statement on ``options``; "" if the setting needs no such statement."""
        line = ""
        if setting.channel == "session_option" and self._has(setting):
            option = self.options.get(setting.key, self.any_option)
            line = option[bool(setting.value)] if isinstance(option, tuple) else option
            line = line.format(self.number(setting.value), key=setting.key)
        elif setting.channel == "session_config" and not self._drops(setting):
            line = self.config.format(self.quote(setting.key), self.text_of(setting.value))
        elif setting.channel == "env_allocator" and "env_allocator" not in self.lacks:
            line = self.config.format(self.quote("session.use_env_allocators"), self.quote("1"))
        elif setting.channel == "global_pool":
            line = self.local_pool
        return line and line + self.end

    def number(self, value: Value) -> str:
        """Return a value as an expression; a thread count is computed when the code runs."""
        count = thread_cap(value)
        if count is not None:
            return self.count.format(count)
        if isinstance(value, bool):
            return self.bools[value]
        return self.words.get(value, value) if isinstance(value, str) else repr(value)

    def text_of(self, value: Value) -> str:
        """Return a value as an expression of type string."""
        count = thread_cap(value)
        return self.quote(as_text(value)) if count is None else self.text.format(self.count.format(count))

    def _entry(self, form: str, setting: Applied) -> str:
        return form.format(self.quote(setting.key), self.text_of(setting.value)) + self.end

    def _drops(self, setting: Applied) -> bool:
        """Return whether a setting is dropped: it replays a captured graph, but the code keeps no device buffers."""
        return is_capture(setting) and not self.keeps_buffers

    def _has(self, setting: Applied) -> bool:
        """Return whether the binding supports a session option with this value."""
        value = setting.value
        has_value = not isinstance(value, str) or thread_cap(value) is not None or value in self.words
        return bool(self.any_option) or (setting.key in self.options and has_value)

    # --- providers and notes ---------------------------------------------------------------------------

    def _way(self, name: str) -> tuple[str, str] | None:
        """Return the binding's method and name for appending a provider; None if the provider is not supported."""
        return next(((way, own[name]) for way, own in self.providers.items() if name in own), None)

    def _appended(self, info: BundleInfo) -> list[EmittedProvider]:
        listed = providers(info.plan, info.applied, keeps_buffers=self.keeps_buffers)
        return [EmittedProvider(name, options, *way) for name, options in listed if (way := self._way(name))]

    def _plugged_in(self, info: BundleInfo) -> list[str]:
        """Return the providers with plug-ins that the code can register."""
        names = [provider.name for provider in self._appended(info)]
        return [name for name in names if self.plugs and find(name).plugin]

    def _options(
        self, info: BundleInfo, provider: EmittedProvider, without: str = ""
    ) -> list[tuple[str, str]]:
        """Return a provider's options as (name, value) in code; callers can replace the folder of compiled models."""
        literals = {key: self.quote(value) for key, value in provider.options.items() if key != without}
        if key := caches(info.plan, info.applied).get(provider.name):
            name, before, folder, after = cache_folder_in(provider.options, key)
            literals[name] = self.stored.format(self.quote(folder))
            if before:
                literals[name] = self.within.format(self.quote(before), literals[name], self.quote(after))
        return [(self.quote(key), value) for key, value in literals.items()]

    def _caches(self, info: BundleInfo) -> list[CacheOption]:
        """Return the folders of compiled models of the providers that the binding appends."""
        keys = caches(info.plan, info.applied)
        plugged_in = self._plugged_in(info)
        there = [
            (p, cache_folder_in(p.options, keys[p.name])) for p in self._appended(info) if p.name in keys
        ]
        return [s for p, s in there if p.name in plugged_in or s.option in self.takes.get(p.name, p.options)]

    def notes(self, info: BundleInfo, custom_ops: Sequence[str]) -> list[tuple[str, str]]:
        """Return the parts of the plan that this language cannot set, each with an alternative."""
        notes = [(as_assignment(s), do) for s in info.applied if (do := self._note(s))]
        plugged_in = self._plugged_in(info)
        for name, options in providers(info.plan, info.applied):
            if name == CPU.name:
                continue  # always available
            if info.requirements and self.name != "Python":
                notes.append((f"provider {name}", self._needs(name, info)))
            if self._way(name) is None:
                notes.append((f"provider {name}", self._instead("provider")))
            graph = find(name).graph_option
            if options.get(graph) == "1" and not self.keeps_buffers:
                notes.append((f"{graph}={options.pop(graph)} of {name}", INSTEAD["graph"]))
            lost = [key for key in options if key not in self.takes.get(name, options)]
            instead = self._instead("plugin_option" if name in plugged_in else "provider_option")
            notes += [(f"{key}={options[key]} of {name}", instead) for key in lost]
        if "custom_ops" in self.lacks:
            notes += [(f"custom operators of {name}", self._instead("custom_ops")) for name in custom_ops]
        return notes

    def _needs(self, name: str, info: BundleInfo) -> str:
        """Return a clause on the package with the provider, as measured: a plug-in, or a build of ONNX Runtime."""
        version = f"ONNX Runtime {info.ort_version}"
        wheel = find(name).plugin
        plugin = next((one for one in info.requirements if wheel and one.startswith(f"{wheel}==")), "")
        if not plugin:
            return f"needs {version} built with it (on PyPI: {info.requirements[0]})"
        if self.plugs:
            return f"needs {version}, and the path of the library in {plugin} (on PyPI) as the plugin argument of load"
        return f"needs a build with it; measured with the plug-in {plugin} (on PyPI), which load.py registers"

    def _note(self, setting: Applied) -> str:
        """Return the alternative to a setting; "" if the language supports it."""
        lacked: str = setting.channel
        cannot = lacked in self.lacks
        if lacked == "session_option":
            cannot = not self._has(setting)
        elif self._drops(setting):
            return INSTEAD["graph"]
        elif lacked == "session_config":
            lacked, cannot = "affinities", names_cpus(setting) and "affinities" in self.lacks
        elif lacked == "process":
            return "" if setting.key == HUGE_PAGES and HUGE_PAGES not in self.lacks else process_line(setting)
        elif setting.key == _ROWS:
            lacked, cannot = "rows", not self.splits
        elif lacked in ("call_style", "page"):
            cannot = setting.value != "run" and not (self.binds and setting.value == "io_binding")
        return self._instead(lacked) if cannot else ""

    def _instead(self, lacked: str) -> str:
        return {**INSTEAD, **self.instead}[lacked].format(self.name)


def _pairs(options: Sequence[tuple[str, str]], form: str) -> str:
    return ", ".join(form.format(*pair) for pair in options)


def _device(provider: EmittedProvider) -> str:
    """Return the kind of device that a plug-in uses; "" for the first non-CPU device, as in ``worker/plugins.py``."""
    usual = "" if find(provider.name).hardware else CPU.hardware
    return (provider.options.get(DEVICE) or usual).upper()


def claim(info: BundleInfo) -> str:
    """Return a clause about the settings that claims no more than the bundle proves."""
    if info.proof is not None and (info.proof.verdict, info.proof.phase) == ("faster", "confirm"):
        return "with the settings that were confirmed to be better than the default"
    if not info.plan.settings and not info.plan.rewrites:
        return "with the default settings: no better ones were confirmed"
    return "with settings that were not confirmed to be better than the default"


def lines(statements: Sequence[str], indent: int) -> str:
    """Return statements as indented lines."""
    pad = " " * indent
    return "".join(f"{pad}{part}\n" for statement in statements for part in statement.split("\n"))


def _plain(value: Value) -> str:
    count = thread_cap(value)
    return as_text(value) if count is None else f"{count} (at most one per CPU)"
