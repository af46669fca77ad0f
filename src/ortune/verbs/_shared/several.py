"""Options of quick commands on several models."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ortune.errors import UsageError
from ortune.verbs._shared.common import ResumeModels, StoreFolder
from ortune.verbs._shared.groups import ExportOptions


@dataclass(frozen=True, kw_only=True)
class KeptRows(ExportOptions):
    """Options of a command on several models that stores each result until the results of all models are complete."""

    resume: ResumeModels = None
    store: StoreFolder = None

    @cached_property
    def of_several(self) -> None:
        """Raise UsageError if ``--resume`` was passed; the driver for several models removes the option before."""
        if self.resume is not None:
            raise UsageError(
                "only a run over several models can be resumed with this command",
                where="--resume",
                do="omit --resume, or repeat the models of the interrupted run",
            )
