"""A command on several models: the models, and the options of each run."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortune.durations import as_option
from ortune.errors import UsageError
from ortune.printable import operand
from ortune.records import Configured
from ortune.runtimes.packages import placed, sendable
from ortune.show.verb_modules import module_of
from ortune.verbs._many.best import Prices
from ortune.verbs._many.best import parse as parse_prices
from ortune.verbs._shared.hosts import HostOption, address, labels
from ortune.verbs._shared.hosts import parse as parse_hosts
from ortune.verbs._shared.model_files import MODEL_SUFFIXES, found, names_several
from ortune.verbs._shared.quantities import seconds
from ortune.verbs._shared.spelling import Argument, Option, OptionField, option_fields, words, written

EACH = "each"
"""Option with which commands that compare models run on each model instead."""
HOST, ON = "host", "on"
"""Options that name machines; the command runs on each machine."""
OF_ALL = ("report", "export", "resume", "budget_each", "price", EACH, HOST)
"""Options that apply to all models together and are not passed to the run of a single model."""
Item = tuple[str, str]
"""One run: a model and the name of the host that runs it; "" for this machine."""
Configure = Callable[[dict[str, Any]], Configured | None]
"""Adds default values from a project's file to the options of one model, and returns the added options."""


@dataclass(frozen=True, kw_only=True)
class ModelBatch:
    """One command on several models.

    Attributes:
        verb: The command.
        argument: Name of the options field that receives a run's model.
        texts: Models, folders and patterns as the user passed them.
        models: The models, in order.
        values: Values by option name, without the models.
        typed: Names of the options that the user passed, even with their default value.
        hosts: The machines, each of which runs all models; () for this machine.
        configure: Adds default values from a project's file for a model; None if no file is read.
    """

    verb: str
    argument: str
    texts: tuple[str, ...]
    models: tuple[str, ...]
    values: Mapping[str, Any]
    typed: Collection[str]
    hosts: tuple[HostOption, ...] = ()
    configure: Configure | None = None

    @property
    def on_cluster(self) -> bool:
        """Whether the models run on the hosts of a cluster."""
        return bool(self.values.get(ON))

    @property
    def items(self) -> tuple[Item, ...]:
        """The runs, in order: each model on all hosts before the next model."""
        names = [host.name for host in self.hosts] or [""]
        return tuple((model, name) for model in self.models for name in names)

    @property
    def prices(self) -> Prices:
        """Hourly prices of the hosts, from ``--price``.

        Raises:
            UsageError: A price is invalid or names an unknown host.
        """
        return parse_prices(self.values.get("price") or (), [host.name for host in self.hosts])

    @property
    def options(self) -> Any:
        """The options class of the command."""
        return module_of(self.verb, "options").Options

    def values_of(self, model: str, host: str = "", **changes: Any) -> dict[str, Any]:
        """Return the option values of one run, by name.

        On a host that a script starts, the script is the value of the ``runtime`` options, with the release that the
        user named.

        Args:
            model: The model of the run.
            host: Name of the host; "" for this machine.
            changes: Values that replace the values of the batch.
        """
        kept = {name: value for name, value in self.values.items() if name not in OF_ALL}
        there: dict[str, Any] = {}
        for one in self.hosts:
            if one.name == host and not one.script:
                there = {"hosts": (one.labels,) if one.labels else ()}
            elif one.name == host:
                releases = {option: kept[option] for option in _runtimes(kept)}
                there = {
                    option: placed(one.script, text)
                    for option, text in ({"runtime": None} | releases).items()
                }
        return kept | {self.argument: model} | there | changes

    def template(self) -> Any:
        """Return the options of the first model, after checking that they are valid for several models.

        Raises:
            UsageError: An option is invalid, or the runs of several models would overwrite each other's files.
        """
        each = self.values.get("budget_each")
        if each is not None and "budget" in self.typed:
            raise UsageError(
                "--budget is for all models together, and --budget-each for each one",
                where="--budget-each",
                do="pass one of them",
            )
        if self.hosts or not self.on_cluster:  # the hosts of a cluster are unknown before joining it
            _ = self.prices
        if self.values.get("quick") and (each is not None or "budget" in self.typed):
            raise UsageError("--quick has a budget of its own", where="--quick", do="omit it, or the budget")
        for name in ("save_workload", "workload"):
            if self.values.get(name):
                flag = f"--{name.replace('_', '-')}"
                raise UsageError("one file of inputs does not serve several models", where=flag, do="omit it")
        if self.verb == "lock" and self.values.get("output"):
            raise UsageError(
                "one lock file cannot hold several models",
                where="--output",
                do="omit it; each model is locked in MODEL.lock.json",
            )
        for option, text in _runtimes(self.values).items() if self.hosts or self.on_cluster else ():
            if sendable(text) is None:
                raise UsageError(
                    "each host has a runtime of its own; only a release or a wheel can be sent there",
                    where=f"--{option.replace('_', '-')} {text}",
                    do="pass a release such as onnxruntime==1.31.1, or omit it",
                )
        if self.values.get("force") and self.values.get("bundle", True):
            self._require_other_names()
        changes = {} if each is None else {"budget": each}
        return self.options(**self.values_of(self.models[0], **changes))

    def _require_other_names(self) -> None:
        """Raise UsageError if two bundles have the same name, because the second would replace the first."""
        name, n = Counter(Path(model).stem for model, _ in self.items).most_common(1)[0]
        if n > 1:
            raise UsageError(
                f"{n} bundles have the name {name}, so each would replace the one before",
                where="--force",
                do="omit --force, or tune them into different folders (--output)",
            )

    @property
    def total_s(self) -> float | None:
        """Seconds for all models together; None if each has its own budget."""
        return seconds(self.values["budget"], "--budget") if "budget" in self.typed else None

    def command(self, *more: str) -> str:
        """Return the command line that repeats this command, including the options for files that it writes.

        Args:
            more: Arguments to append.
        """
        asked = {name: value for name, value in self.values.items() if name not in ("resume", "budget")}
        options = self.options(**asked | {self.argument: self.models[0]})
        line = words(options, without=(self.argument,))
        for option in option_fields(type(options)):
            spelling = option.spelling
            if isinstance(spelling, Option) and not spelling.again and option.given(options):
                flag, _, off = spelling.flag.partition("/")
                value = getattr(options, option.name)
                if isinstance(value, bool):
                    line.append(flag if value else off)
                    continue
                line += [
                    word for part in (value if option.many else [value]) for word in (flag, written(part))
                ]
        budget = [] if self.total_s is None else ["--budget", as_option(self.total_s)]
        return shlex.join(["ortune", self.verb, *map(operand, self.texts), *line, *budget, *more])


def batch(
    verb: str,
    options: type,
    values: Mapping[str, Any],
    typed: Collection[str],
    configure: Configure | None = None,
    *,
    always: bool = False,
) -> tuple[ModelBatch | None, dict[str, Any]]:
    """Return the batch and the option values; for a single model on this machine, None and the values with the model.

    Args:
        verb: The command.
        options: Options class of the command.
        values: Values by option name; a list for several models.
        typed: Names of the options that the user passed.
        configure: As in ``ModelBatch``.
        always: Whether a single model is a batch too, as for a list from Python.

    Raises:
        UsageError: Options contradict each other, a folder has no model, or a pattern matches nothing.
    """
    asked = dict(values)
    model = _model_field(options)
    if model is None or (EACH in asked and not asked[EACH]):
        named = next((name for name in (HOST, ON) if asked.get(name)), "")
        if model is not None and named:
            raise UsageError(
                "runs the same comparison on each host",
                where=f"--{named}",
                do="add --each, or compare two machines: --b-host",
            )
        return None, asked
    texts = _texts(options, asked)
    hosts = parse_hosts(asked.get(HOST) or ())
    on = _cluster(asked, hosts)
    if asked.get("price") and not (hosts or on):
        raise UsageError("a price needs a named machine", where="--price", do="add --host NAME=SCRIPT")
    alone = not always and not asked.get(EACH) and not hosts and not on
    if alone and len(texts) == 1 and not names_several(texts[0]):
        return None, asked | {model.name: texts[0]}
    given = ModelBatch(
        verb=verb,
        argument=model.name,
        texts=tuple(texts),
        models=found(texts),
        values=asked,
        typed=typed,
        hosts=hosts,
        configure=configure,
    )
    return given, asked


def _runtimes(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the runtimes that the user passed, keyed by option: ``runtime`` and the options for single sides."""
    found = {name: value for name, value in values.items() if name == "runtime" or name.endswith("_runtime")}
    return {name: str(value) for name, value in found.items() if value is not None}


def _cluster(asked: Mapping[str, Any], hosts: Collection[HostOption]) -> bool:
    """Return whether the models run on the hosts of a cluster.

    Raises:
        UsageError: The options for the cluster are invalid, or machines are named too.
    """
    on = asked.get(ON)
    for text in asked.get("hosts") or ():
        labels(text)
    if asked.get("hosts") and not on:
        raise UsageError(
            "selects hosts of a cluster", where="--hosts", do="add --on ray, or name machines: --host"
        )
    if on is None:
        return False
    address(str(on))
    if hosts:
        raise UsageError("a cluster has its own hosts", where="--on", do="omit --host, or --on")
    return True


def _model_field(options: type) -> OptionField | None:
    """Return the argument that receives the model (the baseline of a comparison).

    None if the command cannot run on several models.
    """
    fields = list(option_fields(options))
    sides = any(option.name == EACH for option in fields)
    for option in fields:
        if isinstance(option.spelling, Argument) and (sides or option.spelling.each):
            return option
    return None


def _texts(options: type, asked: dict[str, Any]) -> list[str]:
    """Remove the models from the option values and return them.

    A last file that is not a model becomes the value of the next argument.
    """
    texts: list[str] = []
    arguments = [option for option in option_fields(options) if isinstance(option.spelling, Argument)]
    several = arguments if EACH in asked else arguments[:1]
    for option in several:
        value = asked.pop(option.name, None)
        texts += [str(value)] if isinstance(value, str | Path) else [str(part) for part in value or ()]
    more = arguments[len(several) :]
    if more and len(texts) > 1 and asked.get(more[0].name) is None and not _is_model(texts[-1]):
        asked[more[0].name] = texts.pop()
    return texts


def _is_model(text: str) -> bool:
    return names_several(text) or text.partition("@")[0].rstrip("/").lower().endswith(MODEL_SUFFIXES)
