"""Makes typer commands from the verbs' options, and adds the options for output destination and format."""

from __future__ import annotations

import dataclasses
import gc
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from ortune import files
from ortune.cli.output import write_answer, write_document, write_envelope, write_text
from ortune.cli.session import Messages, StopRequest, chosen_format, report_error, reporting
from ortune.errors import OrtuneError, UsageError

if TYPE_CHECKING:
    from ortune import Watcher
    from ortune.records import Configured, Envelope
    from ortune.show.document import Document
    from ortune.verbs._many.batch import Configure, ModelBatch
    from ortune.verbs._shared.spelling import OptionField


def short_help(verb: str) -> str:
    """Return the first line of a verb's help text."""
    return (inspect.getdoc(options_of(verb).Options) or "").partition("\n")[0]


def options_of(verb: str) -> Any:
    """Return the module that defines a verb's options and output formats."""
    return importlib.import_module(f"ortune.verbs.{verb}.options")


def command(verb: str, *, whole: bool = False) -> Callable[..., None]:
    """Return a verb as a function for typer; its code is imported when it runs.

    ``whole`` is whether the process runs only this verb, so that the verb's time includes the start of the process.
    """
    from ortune.verbs._shared.defaults import configurable, unmatched
    from ortune.verbs._shared.spelling import option_fields, with_timeline

    asked = options_of(verb)
    fields = [field for field in option_fields(asked.Options) if field.spelling is not None]
    own_output = any(field.name == "output" for field in fields)
    config = configurable(asked.Options)

    def run(ctx: typer.Context, **values: Any) -> None:
        form = values.pop("format")
        as_json = values.pop("as_json")
        verbose = values.pop("verbose")
        quiet = values.pop("quiet")
        output = None if own_output else values.pop("output")
        with reporting(verb, as_json or form == "json") as shown:
            form = chosen_format(form, as_json, asked.FORMATS)
            if output is not None:
                files.require_writable(Path(output), "--output")
            began_s = _started_s() if whole else None
            configure = None
            if config and not values.pop("no_config"):
                configure = partial(_with_defaults, verb, asked.Options, ctx)
                for sentence in unmatched(Path.cwd()):
                    Messages(quiet=quiet)(sentence)
            several, values = _several(verb, asked.Options, ctx, values, configure)
            if whole:  # the imported objects are left out of the search for garbage
                gc.freeze()
                gc.enable()
            # If the user's program has the terminal, no progress is drawn, and the answer goes to stderr.
            aside = getattr(asked, "FOREGROUND", False)
            if several is not None:
                module, place = importlib.import_module("ortune.verbs._many.run"), output
                envelope = _watched(asked.STOPPING, partial(module.run, several), quiet=quiet)
            else:
                said = shown.configured = configure(values) if configure is not None else None
                module = importlib.import_module(f"ortune.verbs.{verb}.run")
                options = asked.Options(**values)
                if form == "html":
                    options = with_timeline(options)
                place = options.answer if own_output else output
                envelope = _run(module, options, asked.STOPPING, began_s, said, quiet=quiet or aside)
            # With several models or a recording, the document's verb differs from the command's.
            _write(envelope.schema.split("/")[1], envelope, form, place, whole=verbose, aside=aside)
            if envelope.error:
                e = envelope.error
                report_error(verb, OrtuneError(e.what, where=e.where, do=e.do, code=e.code), as_json=False)
            raise typer.Exit(module.exit_code(envelope) if hasattr(module, "exit_code") else 0)

    parameters = _parameters(fields, asked.FORMATS, own_output=own_output, config=config)
    run.__name__, run.__doc__ = verb, _paragraphs(inspect.getdoc(asked.Options) or "")
    vars(run)["__signature__"] = inspect.Signature(parameters)  # typer reads this attribute
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _parameters(
    fields: Sequence[OptionField], formats: tuple[str, ...], *, own_output: bool, config: bool
) -> list[inspect.Parameter]:
    """Return a verb's options and arguments as the signature that typer reads.

    Args:
        fields: Options and arguments of the verb.
        formats: Output formats of the verb.
        own_output: Whether the verb defines ``--output`` itself.
        config: Whether the verb reads a project's configuration file.
    """
    from ortune.verbs._shared import candidates
    from ortune.verbs._shared.common import NO_CONFIG
    from ortune.verbs._shared.spelling import MODEL, Argument, Option

    parameters = []
    arguments = [field.spelling for field in fields if isinstance(field.spelling, Argument)]
    each = any(map(_each, fields))
    for number, field in enumerate(fields):
        spelling = field.spelling
        if isinstance(spelling, Argument):
            if each and number:  # a parser cannot separate a list from the argument after it
                continue
            of = arguments if each else [spelling]
            metavar, help_ = (
                " ".join(texts) for texts in zip(*((a.metavar, a.help) for a in of), strict=True)
            )
            shown = typer.Argument(
                metavar=metavar, help=_escaped_brackets(help_), show_default=False, autocompletion=candidates.completer_of(field),
            )  # fmt: skip
        else:
            assert isinstance(spelling, Option)
            flags = [flag for flag in (spelling.flag, spelling.also, spelling.short) if flag]
            shown = typer.Option(
                *flags, metavar=spelling.metavar or None, help=_escaped_brackets(spelling.help), rich_help_panel=spelling.panel,
                min=spelling.least, hidden=spelling.hidden, show_default=field.default not in (None, "") and not field.many,
                autocompletion=candidates.completer_of(field),
            )  # fmt: skip
        parameters.append(_parameter(field.name, _type(field), _default(field), shown))
    parameters += _answer(formats, own_output)
    if config:
        shown = typer.Option("--no-config", help=_escaped_brackets(NO_CONFIG), rich_help_panel=MODEL)
        parameters.append(_parameter("no_config", bool, False, shown))
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    return [*parameters, context]


def _with_defaults(verb: str, options: type, ctx: typer.Context, values: dict[str, Any]) -> Configured | None:
    """Add values from the project's configuration file for options that were not typed.

    Returns:
        The added values and their file; None if nothing was added.
    """
    from ortune.records import Configured
    from ortune.verbs._shared.defaults import defaults
    from ortune.verbs._shared.spelling import written

    found = defaults(verb, options, _typed(ctx, values), values, Path.cwd())
    parameters = {parameter.name: parameter for parameter in ctx.command.params}
    for name, value in found.values.items():
        text = value if isinstance(value, list) else written(value)
        try:  # parsed like a typed value, with the option's limits
            values[name] = parameters[name].type_cast_value(ctx, text)
        except typer.BadParameter as error:
            flag = parameters[name].opts[0]
            raise UsageError(
                f"{flag} {text}: {error.message}", where=found.file, do=f"write a value that {flag} accepts"
            ) from error
    return Configured(file=found.file, options=found.said) if found.values else None


def _started_s() -> float:
    from ortune.launcher import started_s

    return started_s()


def _paragraphs(doc: str) -> str:
    """Return a docstring with each paragraph joined to one line, as typer expects."""
    return "\n\n".join(" ".join(part.split()) for part in _escaped_brackets(doc).split("\n\n"))


def _escaped_brackets(text: str) -> str:
    """Escape brackets, which typer would interpret as markup."""
    from rich.markup import escape

    return escape(text)


def _several(
    verb: str, options: type, ctx: typer.Context, values: dict[str, Any], configure: Configure | None
) -> tuple[ModelBatch | None, dict[str, Any]]:
    """Return the batch for several models (None for one model) and the option values."""
    from ortune.verbs._shared.spelling import option_fields

    if "each" not in values and not any(map(_each, option_fields(options))):
        return None, values
    from ortune.verbs._many.batch import batch

    return batch(verb, options, values, _typed(ctx, values), configure)


def _run(
    module: Any, options: Any, stopping: str, began_s: float | None, said: Configured | None, *, quiet: bool
) -> Envelope[Any]:
    from ortune.verbs import run_verb

    return _watched(
        stopping,
        lambda watcher: run_verb(module, options, dataclasses.replace(watcher, configured=said), began_s),
        quiet=quiet,
    )


def _watched(stopping: str, action: Callable[[Watcher], Envelope[Any]], *, quiet: bool) -> Envelope[Any]:
    """Run an action with a watcher that shows its progress and passes on stop requests."""
    from ortune import Watcher

    say = Messages(quiet=quiet)
    stop = StopRequest(say, stopping)
    with stop.listening(), say.progress() as progress:
        return action(Watcher(say=say, stop=stop, step=progress, draw=say.draw, begin=stop.begin))


def _typed(ctx: typer.Context, values: Iterable[str]) -> set[str]:
    """Return the names of the options set on the command line."""
    return {name for name in values if getattr(ctx.get_parameter_source(name), "name", "") == "COMMANDLINE"}


def _write(
    verb: str, envelope: Envelope[Any], form: str, output: str | Path | None, *, whole: bool, aside: bool
) -> None:
    place = None if output is None else str(output)
    if form == "json":
        write_envelope(envelope, place, aside=aside)
    elif form == "html":
        from ortune.show.html import pages

        write_text(pages.render(envelope), place, safe=True, aside=aside)
    elif form == "sarif":
        write_text(_words(verb).sarif(envelope), place, safe=True)
    else:
        write_document(_document(verb, envelope), form, place, whole=whole, aside=aside)
    if place is not None:
        write_answer(_document(verb, envelope), place)


def _words(verb: str) -> Any:
    from ortune.show.verb_modules import module_of

    return module_of(verb, "words")


def _document(verb: str, envelope: Envelope[Any]) -> Document:
    from ortune.show.finding_words import with_common_parts

    return with_common_parts(_words(verb).document(envelope), envelope)


def _parameter(name: str, kind: Any, default: Any, shown: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, shown]
    )


def _type(field: OptionField) -> Any:
    """Return the type that typer parses a field as: str if the field accepts text, or a list of str."""
    if field.many or _each(field):
        return list[str]
    if field.takes_text:
        return str | None if type(None) in get_args(field.type) else str
    return field.type


def _each(field: OptionField) -> bool:
    from ortune.verbs._shared.spelling import Argument

    return isinstance(field.spelling, Argument) and field.spelling.each


def _default(field: OptionField) -> Any:
    if field.required:
        return inspect.Parameter.empty
    return list(field.default) if field.many else field.default


def _answer(formats: tuple[str, ...], own_output: bool) -> list[inspect.Parameter]:
    """Return the parameters for the destination, format and verbosity of the result."""
    from ortune.verbs._shared import candidates
    from ortune.verbs._shared.spelling import OUT

    parameters = []
    if not own_output:
        help_ = "Write the result to a file instead of stdout."
        shown = typer.Option("--output", "-o", metavar="FILE", help=help_, rich_help_panel=OUT)
        parameters.append(_parameter("output", str | None, None, shown))
    *most, last = formats
    shown = typer.Option(
        "--format", metavar="FORMAT", help=f"{', '.join(most)} or {last}.", rich_help_panel=OUT,
        autocompletion=candidates.completer_among(formats),
    )  # fmt: skip
    parameters.append(_parameter("format", str, "text", shown))
    shown = typer.Option(
        "--json", help="One JSON document on stdout; the same as --format json.", rich_help_panel=OUT
    )
    parameters.append(_parameter("as_json", bool, False, shown))
    help_ = "Show all details: what was tested, checks, notes."
    shown = typer.Option("--verbose", "-v", help=help_, rich_help_panel=OUT)
    parameters.append(_parameter("verbose", bool, False, shown))
    help_ = "Print the answer alone: no progress and no remarks on stderr."
    shown = typer.Option("--quiet", "-q", help=help_, rich_help_panel=OUT)
    return [*parameters, _parameter("quiet", bool, False, shown)]
