"""The functions of ``import ortune``, one per verb, generated from the verbs' options."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortune import monotonic
from ortune.errors import UsageError

if TYPE_CHECKING:
    from ortune.answer import Answer
    from ortune.records import Envelope, Record


def verbs() -> tuple[str, ...]:
    """Return the names of all verbs, which are the folders in ``verbs/``."""
    folder = importlib.import_module("ortune.verbs")
    names = (module.name for module in pkgutil.iter_modules(folder.__path__))
    return tuple(name for name in names if not name.startswith("_"))


@cache
def function(verb: str) -> Callable[..., Answer[Record]]:
    """Return the Python function of a verb.

    Its arguments are the fields of the verb's ``Options``, with the names of the command line; ``watcher`` receives the
    progress, and ``progress=False`` disables the bar in a notebook. Repeatable options accept text, a list, or a
    mapping of names to values. The function returns the whole document, or raises OrtuneError if there is no document.
    """
    from ortune import Watcher, functions, notebook
    from ortune.answer import Answer, as_answer
    from ortune.verbs import run_verb
    from ortune.verbs._shared.spelling import option_fields

    module, asked = (importlib.import_module(f"ortune.verbs.{verb}.{part}") for part in ("run", "options"))
    result = str(inspect.signature(module.run).return_annotation).replace("Envelope", Answer.__name__)
    signature = functions.signature(asked.Options, result)

    renamed = dict(_renamed(asked.Options))
    fields = {field.name: field for field in option_fields(asked.Options)}

    def call(*args: Any, **kwargs: Any) -> Answer[Record]:
        began_s = monotonic.now_s()
        values = {renamed.get(name, name): value for name, value in kwargs.items()}
        _require_known(verb, values, signature.parameters)
        arguments = signature.bind(*args, **values).arguments
        watcher, bar = arguments.pop("watcher", None), arguments.pop("progress", True)
        with contextlib.ExitStack() as stack:
            stack.enter_context(functions.naming_arguments(asked.Options))
            action = _several(verb, asked.Options, arguments)
            if action is None:
                spelled = {
                    name: functions.value_of(fields[name], value)
                    for name, value in arguments.items()
                    if name in fields
                }
                action = partial(run_verb, module, asked.Options(**spelled), began_s=began_s)
            if watcher is None and bar and notebook.runs_here():
                watcher = Watcher(step=stack.enter_context(notebook.progress()))
            return as_answer(action(watcher))

    call.__name__ = call.__qualname__ = verb
    call.__module__ = "ortune"
    call.__doc__ = functions.documentation(
        inspect.getdoc(asked.Options) or "", inspect.getdoc(module.run) or "", asked.Options, asked.EXAMPLE
    )
    vars(call)["__signature__"] = signature  # what inspect and help() show
    return call


def _several(verb: str, options: type, arguments: Mapping[str, Any]) -> Callable[[Any], Envelope[Any]] | None:
    """Return a function that runs a verb on several models or machines; None if the arguments name only one."""
    from ortune.functions import value_of
    from ortune.verbs._shared.model_files import BUNDLE
    from ortune.verbs._shared.spelling import Argument, option_fields

    fields = {field.name: field for field in option_fields(options)}
    each = next((f.name for f in fields.values() if isinstance(f.spelling, Argument) and f.spelling.each), "")
    given = arguments.get(each)
    listed = isinstance(given, Iterable) and not isinstance(given, str | Path)
    if listed:
        arguments = {**arguments, each: list(given or ())}
    elif not any(arguments.get(name) for name in ("each", "host", "on")):
        if each and isinstance(given, str | Path) and Path(given).is_dir() and Path(given).suffix != BUNDLE:
            do = f"for all models in it, pass a list: ortune.{verb}([{str(given)!r}])"
            raise UsageError("is a folder, not a model", where=str(given), do=do)
        return None
    from ortune.verbs._many.batch import batch
    from ortune.verbs._many.run import run

    values = {
        field.name: arguments[field.name]
        if field.name == each
        else value_of(field, arguments.get(field.name, field.default))
        for field in fields.values()
        if field.name in arguments or not field.required
    }
    asked, _ = batch(verb, options, values, set(arguments), always=True)
    assert asked is not None
    return partial(run, asked)


def _require_known(verb: str, named: Iterable[str], names: Collection[str]) -> None:
    """Raise TypeError with the closest names if a verb does not have one of the named arguments."""
    for name in named:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=2)
            hint = (
                f"did you mean {' or '.join(map(repr, near))}?"
                if near
                else f"help(ortune.{verb}) lists all options"
            )
            raise TypeError(f"ortune.{verb}() has no argument {name!r}; {hint}")


def _renamed(options: type) -> Iterator[tuple[str, str]]:
    """Yield (former name, current name) of arguments that were renamed."""
    from ortune.verbs._shared.spelling import Option, option_fields

    for field in option_fields(options):
        if isinstance(field.spelling, Option) and field.spelling.also:
            yield field.spelling.also.removeprefix("--").replace("-", "_"), field.name
