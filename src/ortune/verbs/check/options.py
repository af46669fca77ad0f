"""Options of ``ortune check``: model files, selection of rules and delivery of fixed models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ortune.errors import UsageError
from ortune.verbs._shared.common import NO_CONFIG, Page, RuntimeOption
from ortune.verbs._shared.defaults import found_from
from ortune.verbs._shared.groups import ExportOptions, PlanOptions
from ortune.verbs._shared.model_files import found
from ortune.verbs._shared.severities import severity_of
from ortune.verbs._shared.spelling import OUT, AnyPath, Argument, Option

if TYPE_CHECKING:
    from ortune.rules import Selection

FORMATS = ("text", "json", "github", "sarif", "markdown", "html")
STOPPING = ""
TABLE = "models"
EXAMPLE = 'ortune.check("models/").result.models'
EXPORTED = "models.findings"
WHICH = "Which rules"
CONFIGURED = {"select": list, "ignore": list, "preview": bool, "fail-on": str}


@dataclass(frozen=True, kw_only=True)
class Options(ExportOptions, PlanOptions):
    """What slows down these models, according to their files? Without --fix, runs nothing.

    Exact fixes (outputs change by rounding at most) are marked [*]; --fix writes them to NAME.fixed.onnx. If an
    onnxruntime is available, the outputs of the copy are compared first. Rules are selected by options, or for a
    project in ortune.toml ([check]) or pyproject.toml ([tool.ortune.check]).
    """

    models: Annotated[
        Sequence[AnyPath],
        Argument(
            "MODEL...", "model.onnx, model.ort or model.onnx@revision; several, folders and patterns too."
        ),
    ]
    select: Annotated[
        Sequence[str],
        Option("--select", "CODE", "Only these rules: codes, code prefixes, or names. Repeatable.", WHICH),
    ] = ()
    ignore: Annotated[
        Sequence[str], Option("--ignore", "CODE", "Exclude these rules. Repeatable.", WHICH)
    ] = ()
    preview: Annotated[bool, Option("--preview", "", "Include preview rules.", WHICH)] = False
    fail_on: Annotated[
        str | None,
        Option(
            "--fail-on",
            "SEVERITY",
            "Exit with 1 at this severity or above: error, warning, note or never. [warning]",
            WHICH,
        ),
    ] = None
    fix: Annotated[
        bool, Option("--fix", "", "Write a copy of each model with the exact fixes applied.", OUT)
    ] = False
    unsafe_fixes: Annotated[
        bool, Option("--unsafe-fixes", "", "Also apply fixes that change outputs or accepted inputs.", OUT)
    ] = False
    diff: Annotated[bool, Option("--diff", "", "Show how the fixes would change the operators.", OUT)] = False
    output: Annotated[
        AnyPath | None,
        Option(
            "--output",
            "FILE",
            "File for the fixed model. Default: NAME.fixed.onnx.",
            OUT,
            short="-o",
            again=False,
            writes="model",
        ),
    ] = None
    in_place: Annotated[bool, Option("--in-place", "", "Overwrite the checked model.", OUT)] = False
    no_config: Annotated[bool, Option("--no-config", "", NO_CONFIG, WHICH)] = False
    runtime: RuntimeOption = None
    report: Page = None

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Paths of the models, after folders and patterns were expanded."""
        return found([str(model) for model in self.models])

    @cached_property
    def configured(self) -> tuple[Mapping[str, Any], str]:
        """Settings from the project's configuration file, and its path; "" if there is no file."""
        return ({}, "") if self.no_config else _configuration(Path.cwd())

    @cached_property
    def selection(self) -> Selection:
        """Selected rules; options take precedence over the project's configuration."""
        from ortune.rules import Selection

        said, file = self.configured
        try:
            Selection(select=said.get("select", ()), ignore=said.get("ignore", ()))
        except UsageError as error:
            raise UsageError(error.what, where=file, do=error.do) from error
        return Selection(
            select=_codes(self.select) or tuple(said.get("select", ())),
            ignore=(*_codes(self.ignore), *said.get("ignore", ())),
            preview=self.preview or bool(said.get("preview")),
        )

    @cached_property
    def severity(self) -> str:
        """The lowest severity that fails the check; "never" if no severity does."""
        said, file = self.configured
        where = "--fail-on" if self.fail_on else f"{file}: fail-on"
        return severity_of(self.fail_on or said.get("fail-on", "warning"), where)

    @cached_property
    def destination(self) -> Path | None:
        """File for the fixed model; None for the default."""
        if not self.paths:
            raise UsageError("no model was given", do="ortune check MODEL.onnx")
        for option, is_set in (("--output", self.output is not None), ("--in-place", self.in_place)):
            if is_set and not self.fix:
                raise UsageError("nothing is fixed", where=option, do="add --fix")
        if self.unsafe_fixes and not (self.fix or self.diff):
            raise UsageError("nothing is fixed", where="--unsafe-fixes", do="add --fix, or --diff")
        if self.output and (self.in_place or len(self.paths) > 1):
            raise UsageError(
                "one output file cannot hold several models",
                where="--output",
                do=("omit it; each model is written to NAME.fixed.onnx"),
            )
        return None if self.output is None else Path(self.output)


def _codes(texts: Sequence[str]) -> tuple[str, ...]:
    """Split the values of an option into codes; a value can contain several codes separated by commas."""
    return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())


def _configuration(folder: Path) -> tuple[Mapping[str, Any], str]:
    """Return the table for ``check`` in the nearest configuration file that has this table, and the file's path."""
    for tables, path in found_from(folder):
        if "check" in tables:
            return _checked(tables["check"], path), str(path)
    return {}, ""


def _checked(said: Any, path: Path) -> Mapping[str, Any]:
    """Return a table's settings; raise UsageError for unknown keys and wrong types."""
    for key, value in said.items() if isinstance(said, dict) else [("check", said)]:
        kind = CONFIGURED.get(key)
        understood = kind is not None and isinstance(value, kind)
        if not understood or (isinstance(value, list) and not all(isinstance(item, str) for item in value)):
            wanted = {list: "a list of strings", bool: "true or false", str: "a text"}
            allowed = f"{key} is {wanted[kind]}" if kind else f"valid keys: {', '.join(CONFIGURED)}"
            raise UsageError(f"{key} = {value!r} is not understood", where=str(path), do=allowed)
    return dict(said)
