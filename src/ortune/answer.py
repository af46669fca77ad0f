"""Return type of the functions of ``import ortune``: a verb's document with methods for interactive use."""

from __future__ import annotations

import importlib
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from ortune.errors import UsageError
from ortune.printable import visible
from ortune.records import Envelope, ManyResult, Record

if TYPE_CHECKING:
    from ortune.show.document import Document

ResultT_co = TypeVar("ResultT_co", covariant=True)


class Answer(Envelope[ResultT_co], Generic[ResultT_co], frozen=True, kw_only=True):
    """A verb's document that can also be shown as text, in a notebook, and as a table."""

    def __repr__(self) -> str:
        """Return one line with the verb, the model and the verdict."""
        model = f" {PurePath(self.model.path).name}" if self.model else ""
        if isinstance(self.result, ManyResult):
            return visible(f"<ortune.{self.result.verb} of {len(self.result.models)} models: {self.status}>")
        said = self.error.what if self.error else self.verdict or self.status
        return visible(f"<ortune.{self._verb}{model}: {said} (.summary() in words, .result for the figures)>")

    def summary(self, *, verbose: bool = False) -> str:
        """Return the command line's output without colours; ``verbose`` adds the details of ``-v``."""
        from ortune.show import terminal

        return terminal.plain(self._document(), whole=verbose)

    def _repr_html_(self) -> str:
        """Return the command line's output as HTML for a notebook."""
        from ortune.show import terminal

        return terminal.html(self._document())

    def to_pandas(self, table: str = "") -> Any:
        """Return one table of the result as a ``pandas.DataFrame``: one row per record, one column per field.

        Args:
            table: Name of a field of ``result`` that contains records, such as "nodes"; dots separate nested fields.
                The default is the main table of the verb.

        Raises:
            UsageError: If pandas is not installed, or there is no such table.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ModuleNotFoundError as error:
            raise UsageError(
                "to_pandas needs pandas, which is not installed here", do="pip install pandas"
            ) from error
        from ortune.show.verb_modules import module_of

        name = table or module_of(self._verb, "options").TABLE
        part_of_result: Any = self.result
        for part in name.split("."):
            part_of_result = getattr(part_of_result, part, None)
        records = (part_of_result,) if isinstance(part_of_result, Record) else part_of_result
        if not isinstance(records, tuple) or not all(isinstance(record, Record) for record in records):
            if not table:
                records = ()  # such as a diagnosis with too small a budget for a profile
            else:
                choices = ", ".join(table_names(self.result))
                raise UsageError(f"the result has no table {table!r}", do=f"one of {choices}")
        return pandas.json_normalize([msgspec.to_builtins(record) for record in records])

    @property
    def _verb(self) -> str:
        return self.schema.split("/")[1]

    def _document(self) -> Document:
        from ortune.show.finding_words import with_common_parts
        from ortune.show.verb_modules import module_of

        words = module_of(self._verb, "words")
        return with_common_parts(words.document(self), self)


def table_names(result: Any) -> list[str]:
    """Return the names of the fields of a result that contain records."""
    names = []
    for name in result.__struct_fields__:
        value = getattr(result, name)
        if isinstance(value, Record) or (isinstance(value, tuple) and value and isinstance(value[0], Record)):
            names.append(name)
    return names


def as_answer(envelope: Envelope[Any]) -> Answer[Any]:
    """Return a verb's document as an ``Answer``."""
    return Answer(**{name: getattr(envelope, name) for name in envelope.__struct_fields__})
