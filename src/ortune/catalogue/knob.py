"""What a setting is: the record into which a row of the catalogue is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypedDict

import msgspec

from ortune.catalogue import providers
from ortune.catalogue.facts import Fact, ModelFacts
from ortune.objectives import Objective
from ortune.records import Applied, Channel, Record, Value

Priors = Mapping[Objective, float | Mapping[str, float]]
"""How likely a change pays, for an objective: one number, or one for each value as text. "latency" speaks for "p95",
"throughput" and "cpu" too where these say nothing. 0 is never tried."""

OFTEN = 0.2
SELDOM = 0.08
"""Priors: what pays on many models, and what pays on few healthy ones."""

WEB: tuple[Channel, ...] = ("web_env", "web_session", "web_page")
"""Channels into a page: onnxruntime-web's ``env``, its session options, and the page itself."""

_NOT_RUNS = ("cold-start", "main-thread", "event-loop", "memory")
_WITH_BOOLEANS = ("session_option", *WEB)


class Applies(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Models in which a setting has something to act on; those of every condition that is given.

    Attributes:
        operators: The model has a node of one of these types; () is any model.
        fact: The property of ``ModelFacts`` that is true.
        unless: The property of ``ModelFacts`` that is false.
    """

    operators: tuple[str, ...] = ()
    fact: Fact | Literal[""] = ""
    unless: Fact | Literal[""] = ""

    def holds(self, model: ModelFacts) -> bool:
        """Return whether a model meets the conditions."""
        if self.operators and not model.has(*self.operators):
            return False
        if self.fact and not getattr(model, self.fact):
            return False
        return not (self.unless and getattr(model, self.unless))


class Together(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A setting that is right only with another one: tried with it, and omitted if a program lacks that one.

    Attributes:
        setting: ``knob=value``.
        origin: What the two are, for people.
        priors: How likely the two pay together; an objective that says nothing does not try them.
    """

    setting: str
    origin: str
    priors: Priors


Worth = Callable[[ModelFacts, str], Mapping[str, float]]
"""Returns the values that are worth trying on a model with a version of ONNX Runtime, each with its prior."""


class Computed(TypedDict, total=False):
    """Fields of a setting that code computes."""

    only: Mapping[str, tuple[str, ...]]
    worth: Worth


class Knob(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One setting. How a channel is applied and a probe is made is code in the worker, once for all knobs.

    Attributes:
        name: The name on the command line and in plans.
        documentation: What ``explain`` and the pages of the documentation show: a title, then a text under each of the
            fixed headings.
        aliases: Short names accepted by ``--set``.
        since: First ONNX Runtime version that knows it ("0" is any).
        channel: How it reaches the session (a closed list).
        key: The name within the channel: attribute, config key, variable, library stem.
        provider: The execution provider that it belongs to, by ONNX Runtime's name; "" is the whole session's.
        only: The execution providers that a value can run, for values that cannot run all.
        builds: The builds of onnxruntime-web that read it; () is all.
        parts: What a text is to its channel: one text, a list (``A;B``) or numbers by name (``A=1;B=2``).
        kind: Type of the value.
        choices: The values allowed, as text; empty means any of the kind.
        beyond: The provider takes other values too, which a plan may give it as an option.
        minimum, maximum: Smallest and largest allowed value of an int; ONNX Runtime's own have 32 bits. Threads are at
            most 4096, more than any machine has CPUs: a pool of a million would take the machine with it.
        pattern: What the whole of a text must match; every text has one.
        spelled: Values as the channel wants them, where the two differ.
        default: ORT's default in words. A knob that is absent is recorded as ``default``, never as a guess.
        probe: Name of the worker's check that the setting arrived; "" if none is possible.
        conflicts: Names of knobs that must not be set together with this one; one of the two says so.
        safety: Safety class of setting it.
        strict: The value with which the provider computes in the model's own types, where its default may use fewer
            bits on some devices; "" is none. That value is exact whatever ``safety`` says.
        instructions: By value, the instruction sets of which the processor needs one; without, the value has no effect.
        summary: One line.
        system: The system that alone has it, as ``sys.platform`` calls it; "" is any.
        threads: The pool whose threads it counts: never more than there are CPUs, here or where a bundle is loaded.
        cpu_numbers: It names CPUs by number, which means nothing on another machine.
        under_load: It changes threads, spinning or affinity: what it gains depends on the CPUs that other programs
            leave, so a gain next to them is no gain on a machine without them.
        joined_by: The text between the parts of a value whose parts add up where two plans become one; "" for a
            value that replaces the other.
        tries: Values that ``tune`` proposes, as text; "{cpus}", "{cpus/2}" and "{cpus-1}" are filled in from the
            machine and dropped where they make no sense there.
        prior: How likely one of them pays where ``priors`` says nothing: OFTEN, SELDOM (only when time is left), or
            0 for what is never tried on its own.
        applies: The models in which it has anything to act on.
        worth: Values and priors that depend on the model and the version of ONNX Runtime, in the place of ``tries``,
            ``prior`` and ``applies``: code of ``computed/``.
        priors: Priors for an objective, in the place of those.
        needs: Settings that must be there for this one to mean anything, as ``knob=value``.
        together: Settings that are right only with this one.
        triton: Its name among the parameters of Triton's ONNX Runtime backend, "" if that has none.
        triton_values: How that spells ONNX Runtime's values, where they differ: "" needs no line, and one that is not
            there cannot be set. Empty where they are the same.
        packaged: Whether a model package can contain it, as the entry ``session.KEY``.
    """

    name: str
    documentation: str
    aliases: tuple[str, ...] = ()
    since: str = "0"
    channel: Channel
    key: str
    provider: str = ""
    only: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    builds: tuple[str, ...] = ()
    parts: Literal["", "list", "numbers"] = ""
    kind: Literal["int", "bool", "choice", "text"]
    choices: tuple[str, ...] = ()
    beyond: bool = False
    minimum: int | None = None
    maximum: int = 2**31 - 1
    pattern: str = ""
    spelled: Mapping[str, str] = msgspec.field(default_factory=dict)
    default: str
    probe: str = ""
    conflicts: tuple[str, ...] = ()
    safety: Literal["exact", "numerics", "behaviour", "advice"] = "exact"
    strict: str = ""
    instructions: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    summary: str
    system: str = ""
    threads: Literal["", "intra", "inter"] = ""
    cpu_numbers: bool = False
    under_load: bool = False
    joined_by: str = ""
    tries: tuple[str, ...] = ()
    prior: float = 0.0
    applies: Applies = Applies()
    worth: Worth | None = None
    priors: Priors = msgspec.field(default_factory=dict)
    needs: tuple[str, ...] = ()
    together: tuple[Together, ...] = ()
    triton: str = ""
    triton_values: Mapping[str, str] = msgspec.field(default_factory=dict)
    packaged: bool = False

    @property
    def title(self) -> str:
        """The first line of the documentation, without its full stop."""
        return self.documentation.partition("\n")[0].rstrip(".")

    @property
    def everywhere(self) -> bool:
        """Whether it acts under any provider: on the process, the page, or how the session is called."""
        return self.channel in ("preload", "call_style") or (self.channel in WEB and not self.provider)

    @property
    def device(self) -> str:
        """The device that alone reads it, where its key names one; else ""."""
        way = self.key.split("/")
        return way[1] if way[0] == "load_config" else ""

    @property
    def is_cache(self) -> bool:
        """Whether the value is a folder in which an execution provider stores what it compiled."""
        return self.probe == "folder"

    @property
    def of_browsers(self) -> bool:
        """Whether onnxruntime-web alone has it."""
        return self.channel in WEB or providers.find(self.provider).in_page

    def safety_of(self, value: Value) -> Literal["exact", "numerics", "behaviour", "advice"]:
        """Return the safety class of setting one value."""
        return "exact" if self.is_strict(value) else self.safety

    def is_strict(self, value: Value) -> bool:
        """Return whether a value keeps the provider to the model's own types."""
        return bool(self.strict) and str(value) == self.strict

    def runs(self, text: str, provider: str) -> bool:
        """Return whether an execution provider can run with a value."""
        return provider in self.only.get(text, (provider,))

    def values(self, facts: ModelFacts, ort_version: str) -> Mapping[str, float]:
        """Return the values to try on a model, placeholders not filled in, each with its prior by the model alone."""
        if self.worth is not None:
            return self.worth(facts, ort_version)
        return dict.fromkeys(self.tries, self.prior) if self.applies.holds(facts) else {}

    def prior_for(self, objective: Objective, text: str, by_model: float) -> float:
        """Return how likely a value pays, 0 to 1; ``by_model`` is its prior by the model alone."""
        said = prior_of(self.priors, objective, text)
        if said is not None:
            return said
        # What makes runs faster seldom makes loading faster or memory smaller.
        return by_model / 2 if objective in _NOT_RUNS else by_model

    def applied(self, value: Value) -> Applied:
        """Return the value as its channel wants it."""
        if isinstance(value, bool) and self.channel not in _WITH_BOOLEANS:
            value = int(value)
        value = self.spelled.get(str(value), value)
        return Applied(
            knob=self.name,
            channel=self.channel,
            key=self.key,
            provider=self.provider,
            value=value,
            probe=self.probe,
        )

    def javascript(self, applied: Value) -> Value | list[str] | dict[str, int]:
        """Return an applied value as a page is given it: lists and numbers by name in the place of their text."""
        if self.parts == "list":
            return str(applied).split(";")
        if self.parts == "numbers":
            return {name: int(number) for name, number in numbers(applied).items()}
        return applied


def numbers(applied: Value) -> dict[str, str]:
    """Return the parts of an applied value of numbers by name, each number as it is written."""
    pairs = (part.rpartition("=") for part in str(applied).split(";"))
    return {name: number for name, _, number in pairs}


def prior_of(priors: Priors, objective: Objective, text: str = "") -> float | None:
    """Return what priors say of a value for an objective; None if they say nothing."""
    objectives: tuple[Objective, ...] = (objective,) if objective in _NOT_RUNS else (objective, "latency")
    for candidate in objectives:
        said = priors.get(candidate)
        prior = said.get(text) if isinstance(said, Mapping) else said
        if prior is not None:
            return prior
    return None
