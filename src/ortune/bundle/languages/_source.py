"""What the compiled languages have in common: which settings a binding has, and what to say of the others.

A language is a subclass that gives its words; the walk over a plan's settings is here once. Values go into the
code as literals, and into comments only as JSON of ASCII, so that none can end its line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, NamedTuple

from ortune.bundle.languages import fill
from ortune.bundle.machine import PACKAGES
from ortune.bundle.settings import as_text, is_bound, needs_allocator, providers, threads
from ortune.knobs.cpu.transparent_huge_pages import KNOB as HUGE_PAGES
from ortune.records import Applied, BundleInfo, Value

CPU = "CPUExecutionProvider"
MACHINES = {"AMD64": "x86_64", "x64": "x86_64", "arm64": "aarch64", "ARM64": "aarch64"}
"""One name for each architecture; systems call it differently."""


@cache
def table() -> dict[str, Any]:
    """What ``tools/make_api_table.py`` read in the sources of the bindings' releases."""
    text = files(__package__).joinpath("api_table.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def by_name() -> Mapping[str, str]:
    """Providers that ONNX Runtime's C API appends by name, with options as text.

    The name given is the short one: releases before 1.22 know no other.
    """
    found: Mapping[str, str] = table()["providers"]
    return found


class Note(NamedTuple):
    """A setting that a language cannot make, and what to put instead."""

    setting: str
    do: str


class Language:
    """One compiled language. The class variables are its words, ``{}`` where a value goes.

    Attributes:
        COUNT: The threads to start here, of those that were measured. TEXT: a number as text.
        IF: A condition around one statement. TUNED, ENOUGH, ALLOCATOR: the conditions "this is the tuned model",
            "this is the tuned CPU, with as many CPUs as it had", "the plan's allocator is in the process".
        OPTIONS: Session options by ORT's Python name, as statements. SWITCHES: those that are two statements.
        WORDS: ORT's names of levels and modes in this language.
        CONFIG, RUN_CONFIG, CUSTOM_OPS, VARIABLE: Statements; "" where the binding has none.
        POOL: Statements that make the global pool with that many threads.
        LOCAL_POOL: The statement on the session's options that goes with POOL.
        HUGE_PAGES: Not empty where the code turns transparent huge pages off itself.
        PRELOADS: Whether a system that the binding runs on preloads libraries by LD_PRELOAD.
        LIST, PAIR: Elements of a list, and a pair of texts within one.
        INDENT: Columns before a statement of a function.
        LINKED_OPS: What to call for operators of a library that is linked, where CUSTOM_OPS is "".
        BINDING: What to call for bound inputs and outputs, "" where the binding has none.
    """

    NAME: ClassVar[str]
    FILE: ClassVar[str]
    COUNT: ClassVar[str]
    TEXT: ClassVar[str]
    IF: ClassVar[str]
    TUNED: ClassVar[str]
    ENOUGH: ClassVar[str]
    ALLOCATOR: ClassVar[str] = "!without_allocator()"
    BOOLS: ClassVar[tuple[str, str]] = ("false", "true")
    OPTIONS: ClassVar[Mapping[str, str]]
    SWITCHES: ClassVar[Mapping[str, tuple[str, str]]] = {}
    WORDS: ClassVar[Mapping[str, str]]
    CONFIG: ClassVar[str]
    RUN_CONFIG: ClassVar[str] = ""
    CUSTOM_OPS: ClassVar[str] = ""
    LINKED_OPS: ClassVar[str] = ""
    VARIABLE: ClassVar[str]
    POOL: ClassVar[str] = ""
    LOCAL_POOL: ClassVar[str] = ""
    BINDING: ClassVar[str] = ""
    HUGE_PAGES: ClassVar[str] = ""
    PRELOADS: ClassVar[bool] = True
    LIST: ClassVar[str] = "{}"
    PAIR: ClassVar[str] = ""
    INDENT: ClassVar[int] = 2

    def __init__(self, info: BundleInfo, custom_ops: Sequence[str]) -> None:
        self.info = info
        self.custom_ops = custom_ops

    # --- what a subclass answers -----------------------------------------------------------------------

    def quote(self, text: str) -> str:
        """The text as a literal of the language."""
        raise NotImplementedError

    def provider(self, name: str, options: Mapping[str, str]) -> list[str] | None:
        """Statements that append an execution provider; None where the binding cannot."""
        raise NotImplementedError

    def options_lost(self, name: str, options: Mapping[str, str]) -> list[str]:
        """Keys of a provider's options that the binding has no way to give."""
        return []

    def arena(self, options: Mapping[str, int]) -> list[str]:
        """Statements that register an arena for all sessions; none where the binding cannot."""
        return []

    def extra(self) -> dict[str, str]:
        """Further places of the template."""
        return {}

    # --- the walk --------------------------------------------------------------------------------------

    def files(self) -> dict[str, str]:
        """The emitted file by its name."""
        host = self.info.host
        notes = self.notes()
        start = [f"{s.key}={self._plain(s.value)}" for s in self.of("env")]
        preloads = [(str(s.value), preload(str(s.value))) for s in self.of("preload") if self.PRELOADS]
        start += [f'LD_PRELOAD="{find}"' for _, find in preloads]
        variables = [self.VARIABLE.format(self.quote(s.key), self.text(s.value)) for s in self.of("env")]
        libraries = [self.CUSTOM_OPS.format(self.quote(name)) for name in self.custom_ops if self.CUSTOM_OPS]
        runs = [self.RUN_CONFIG.format(self.quote(s.key), self.text(s.value)) for s in self.of("run_config")]
        places = {
            "MODEL": self.quote(self.info.model),
            "PLAIN_MODEL": self.quote(self.info.plain_model if self.info.hardware_bound else ""),
            "TUNED_WITH": self.quote(self.info.ort_version),
            "WITHOUT_ALLOCATOR": self.quote(self.without_allocator()),
            "TUNED_MACHINE": self.quote(MACHINES.get(host.machine, host.machine) if host else ""),
            "TUNED_CPU": self.quote(host.cpu if host else ""),
            "TUNED_CPUS": str(host.effective_cpus if host else 1),
            "TUNED_FEATURES": self.texts(host.features if host else ()),
            "ORT_VERSION": comment(self.info.ort_version or "not recorded"),
            "CANNOT": self.texts([f"{note.setting}: {note.do}" for note in notes]),
            "CANNOT_COMMENTS": self.block(comments(notes), self.INDENT // 2 if self.INDENT > 2 else 0),
            "START_COMMENTS": "".join(f"// Start the process with: {comment(line)}\n" for line in start),
            "ENVIRONMENT": self.block(variables),
            "PRELOAD": self.pairs(preloads),
            "OPTIONS": self.block([*self.session_lines(), *self.provider_lines()]),
            "CUSTOM_OPS": self.block(libraries),
            "RUN_OPTIONS": self.block(runs),
            "ONCE": self.block(self.once()),
            **self.extra(),
        }
        return {self.FILE: fill(f"{self.FILE}.tmpl", places)}

    def session_lines(self) -> list[str]:
        """Statements on ``options``; what holds for the tuned machine alone stands behind its condition."""
        lines: list[str] = []
        for setting in self.info.applied:
            line = self.statement(setting)
            if not line or line in lines:
                continue
            if is_bound(setting):
                # Numbered CPUs: of no use on another machine, an error where there are fewer.
                line = self.IF.format(self.ENOUGH, line)
            elif setting.knob in self.info.model_settings:
                # It belongs to the model that is optimised already; the plain one needs the default.
                line = self.IF.format(self.TUNED, line)
            elif needs_allocator(setting, self.info.applied):
                line = self.IF.format(self.ALLOCATOR, line)
            lines.append(line)
        return lines

    def without_allocator(self) -> str:
        """What the code says where the plan's allocator is not in the process."""
        names = [str(s.value) for s in self.of("preload") if self.PRELOADS]
        packages = ", ".join(f"{name} (Debian: apt install {PACKAGES.get(name, name)})" for name in names)
        stays = any(needs_allocator(s, self.info.applied) for s in self.info.applied)
        return (
            f"not in this process: {packages}" + (", so the arena stays on" if stays else "") if names else ""
        )

    def statement(self, setting: Applied) -> str:
        """One setting as a statement on ``options``, "" where it is none."""
        if setting.channel == "session_option":
            if setting.key in self.SWITCHES:
                return self.SWITCHES[setting.key][bool(setting.value)]
            return self.OPTIONS[setting.key].format(self.number(setting.value)) if self.has(setting) else ""
        if setting.channel == "session_config":
            return self.CONFIG.format(self.quote(setting.key), self.text(setting.value))
        if setting.channel == "env_allocator" and self.arena_lines():
            return self.CONFIG.format(self.quote("session.use_env_allocators"), self.quote("1"))
        return self.LOCAL_POOL if setting.channel == "global_pool" else ""

    def has(self, setting: Applied) -> bool:
        """Whether the binding has this session option, with this value."""
        if setting.key not in self.OPTIONS:
            return setting.key in self.SWITCHES
        return (
            not isinstance(setting.value, str)
            or threads(setting.value) is not None
            or setting.value in self.WORDS
        )

    def providers(self) -> list[tuple[str, dict[str, str]]]:
        """Providers with their options but the CPU's own, which is always there."""
        return [(name, own) for name, own in providers(self.info.plan, self.info.applied) if name != CPU]

    def provider_lines(self) -> list[str]:
        """Statements that append the providers."""
        return [line for name, options in self.providers() for line in self.provider(name, options) or ()]

    def once(self) -> list[str]:
        """Statements for what all sessions of a process share."""
        pool = [self.POOL.format(self.number(s.value)) for s in self.of("global_pool") if self.POOL]
        return pool + self.arena_lines()

    def arena_lines(self) -> list[str]:
        """Statements that register the shared arena."""
        options = {s.key: int(s.value) for s in self.of("env_allocator")}
        return self.arena(options) if options else []

    def notes(self) -> list[Note]:
        """What of the plan this language cannot set, with the line to put."""
        found = [note for s in self.info.applied if (note := self._note(s)) is not None]
        for name, options in self.providers():
            if self.provider(name, options) is None:
                found.append(
                    Note(f"provider {name}", f"the {self.NAME} binding cannot append it; load.py can")
                )
            for key in self.options_lost(name, options):
                found.append(
                    Note(
                        f"{key}={options[key]} of {name}",
                        f"the {self.NAME} binding has no such option; load.py can",
                    )
                )
        if not self.CUSTOM_OPS:
            found += [Note(f"custom operators of {name}", self.LINKED_OPS) for name in self.custom_ops]
        return found

    def _note(self, setting: Applied) -> Note | None:
        own = f"the {self.NAME} binding"
        pages = setting.knob == HUGE_PAGES.name and self.HUGE_PAGES
        cases: dict[str, tuple[bool, str]] = {
            "session_option": (not self.has(setting), f"{own} has no such option; load.py sets it"),
            "session_config": (
                is_bound(setting) and not self.ENOUGH,
                f"{own} has no such option; load.py sets it",
            ),
            "run_config": (not self.RUN_CONFIG, f"{own} has no such option; load.py sets it"),
            "env_allocator": (
                not self.arena_lines(),
                f"{own} registers no shared arena; load.cpp, Load.cs and load.py do",
            ),
            "global_pool": (
                not self.POOL,
                f"{own} makes no global pool; its sessions have pools of their own",
            ),
            "preload": (not self.PRELOADS, "nothing preloads it there; the system's allocator stays"),
            "process": (not pages and process_line(setting) != "", process_line(setting)),
            "call_style": (
                setting.value != "run",
                self.BINDING or f"{own} has no bound inputs and outputs; call run() with new ones each time",
            ),
            "page": (True, "a setting of browsers alone"),
        }
        cannot, do = cases.get(setting.channel, (False, ""))
        return Note(f"{setting.knob}={as_text(setting.value)}", do) if cannot else None

    # --- values ----------------------------------------------------------------------------------------

    def number(self, value: Value) -> str:
        """A value as an expression: a thread count is computed where the code runs."""
        count = threads(value)
        if count is not None:
            return self.COUNT.format(count)
        if isinstance(value, bool):
            return self.BOOLS[value]
        return self.WORDS[value] if isinstance(value, str) else repr(value)

    def text(self, value: Value) -> str:
        """A value as an expression that gives text."""
        count = threads(value)
        return self.quote(as_text(value)) if count is None else self.TEXT.format(self.COUNT.format(count))

    def texts(self, values: Sequence[str]) -> str:
        """The elements of a list of texts."""
        return self.LIST.format(", ".join(map(self.quote, values)))

    def pairs(self, values: Sequence[tuple[str, str]]) -> str:
        """The elements of a list of pairs of texts."""
        return ", ".join(self.PAIR.format(*map(self.quote, pair)) for pair in values)

    def mapping(self, values: Mapping[str, str]) -> str:
        """The entries of a mapping of texts."""
        return self.pairs(list(values.items()))

    def of(self, channel: str) -> list[Applied]:
        """The settings of a channel."""
        return [s for s in self.info.applied if s.channel == channel]

    def block(self, lines: Sequence[str], indent: int | None = None) -> str:
        """Statements, each on lines of its own."""
        pad = " " * (self.INDENT if indent is None else indent)
        return "".join(f"{pad}{part}\n" for line in lines for part in line.split("\n"))

    def _plain(self, value: Value) -> str:
        count = threads(value)
        return as_text(value) if count is None else f"{count} (fewer on a smaller machine)"


def preload(name: str) -> str:
    """Shell words that give the path of an allocator's library on Linux, whatever its version's ending."""
    stem = {"tcmalloc": "libtcmalloc(_minimal)?"}.get(name, f"lib{name}")
    return f"$(/sbin/ldconfig -p | grep -oE '/.*/{stem}[.]so.*' | head -n 1)"


def process_line(setting: Applied) -> str:
    """How to start the program with a setting of the process; "" where nothing need be done."""
    if setting.key == "affinity":
        return f"start it with: taskset -c {as_text(setting.value)} PROGRAM"
    if setting.key == "nice":
        return f"start it with: nice -n {as_text(setting.value)} PROGRAM"
    if as_text(setting.value) == "never":
        return "start it from a program that called prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)"
    return ""


def comments(notes: Sequence[Note]) -> list[str]:
    """Two lines of comment a note: the setting, and what to do instead."""
    return [line for n in notes for line in (f"// {comment(n.setting)}", f"//     {comment(n.do)}")]


def comment(text: str) -> str:
    """Text for a comment of one line: ASCII, no line breaks, and no escape that a compiler would read in a comment."""
    return re.sub(r"[^ -\[\]-~]", lambda found: f"<{ord(found.group()):x}>", text)


def escaped(text: str, special: Mapping[str, str], other: str) -> str:
    """Text for between double quotes: printable ASCII as it is but for ``special``, the rest by its code."""
    return "".join(
        special.get(sign) or (sign if " " <= sign <= "~" else other.format(ord(sign))) for sign in text
    )


def as_json(text: str) -> str:
    """Text as JSON of ASCII, quotes included, which is a literal of C# too."""
    return json.dumps(text, ensure_ascii=True)
