"""The functions of ``import ortune``, one a verb: made of what each verb can be asked."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortune.records import Envelope, Record


def verbs() -> tuple[str, ...]:
    """Every verb: a module of ``verbs/`` each."""
    folder = importlib.import_module("ortune.verbs")
    found = (module.name for module in pkgutil.iter_modules(folder.__path__))
    return tuple(name for name in found if not name.startswith("_"))


@cache
def function(verb: str) -> Callable[..., Envelope[Record]]:
    """The Python function of a verb.

    Its arguments are the fields of the verb's ``Options``, with the names of the command line; ``watcher`` is told what
    happens meanwhile. It returns the whole document, and raises OrtuneError where there is none.
    """
    module = importlib.import_module(f"ortune.verbs.{verb}")
    result = inspect.signature(module.run).return_annotation
    signature = inspect.Signature(list(_parameters(module.Options)), return_annotation=result)

    renamed = dict(_renamed(module.Options))

    def call(*args: Any, **kwargs: Any) -> Envelope[Record]:
        given = signature.bind(
            *args, **{renamed.get(name, name): value for name, value in kwargs.items()}
        ).arguments
        watcher = given.pop("watcher", None)
        document: Envelope[Record] = module.run(module.Options(**given), watcher)
        return document

    call.__name__ = call.__qualname__ = verb
    call.__module__ = "ortune"
    call.__doc__ = f"{inspect.getdoc(module.Options)}\n\n{inspect.getdoc(module.run)}"
    vars(call)["__signature__"] = signature  # what inspect and help() show
    return call


def _renamed(options: type) -> Iterator[tuple[str, str]]:
    """Arguments that had another name before, with the name of now."""
    from ortune.verbs._options import Option, option_fields

    for each in option_fields(options):
        if isinstance(each.spelling, Option) and each.spelling.also:
            yield each.spelling.also.removeprefix("--").replace("-", "_"), each.name


def _parameters(options: type) -> list[inspect.Parameter]:
    from ortune.verbs._options import Argument, option_fields

    found = []
    for each in option_fields(options):
        argument = isinstance(each.spelling, Argument)
        many = argument and each.many
        kind = (
            inspect.Parameter.VAR_POSITIONAL
            if many
            else inspect.Parameter.POSITIONAL_OR_KEYWORD
            if argument
            else inspect.Parameter.KEYWORD_ONLY
        )
        default = inspect.Parameter.empty if each.required or many else each.default
        found.append(inspect.Parameter(each.name, kind, default=default, annotation=each.type))
    return [*found, inspect.Parameter("watcher", inspect.Parameter.KEYWORD_ONLY, default=None)]
