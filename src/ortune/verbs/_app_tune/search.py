"""The search over a recording: stages that build on each other, then a confirmation in fresh blocks."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from ortune.catalogue.named import INTRA_OP_NUM_THREADS as THREADS
from ortune.catalogue.named import ORT_INTRA_OP_NUM_THREADS as VARIABLE
from ortune.catalogue.versions import why_too_old
from ortune.errors import OrtuneError
from ortune.measuring.application import RECORDED, Application, Variant
from ortune.measuring.application_models import (
    Rewriter,
    RewrittenAppModel,
    busiest,
    proposed,
    providers_for,
    usable_providers,
)
from ortune.measuring.opening import Experiment
from ortune.measuring.recorded_settings import settings_of
from ortune.outputs.tolerance import worst_of
from ortune.records import (
    AppPlay,
    OutputDifference,
    ReplayedGain,
    RewriteSpec,
    TrialError,
    Value,
    assignment,
)
from ortune.search import application as search
from ortune.search.waiting import quiet_cpus
from ortune.stats.arrivals import LATE_SHARE
from ortune.verbs._app_tune import figures
from ortune.verbs._app_tune.part import seen_of
from ortune.verbs._app_tune.plays import Plays, SearchStopped
from ortune.verbs._app_tune.result import AppCandidate, AppConfirmation, Verdict

AGAIN = "again"
REWRITING_SHARE = 0.1
"""Maximum fraction of the remaining time for applying one set of rewrites."""
SPARE = 1.15
"""Safety factor on the expected duration of plays, which take longer if the machine becomes busier."""


class ApplicationSearch:
    """The search of one recording.

    Attributes:
        plays: The object that plays the recording.
        base: The recorded sessions with the settings of ``--current``, the baseline of all measurements.
        kept: The base plus the changes kept so far.
        candidates: Rows of the tested changes.
        n_stages: Number of planned stages.
        rewritten: The kept rewritten models, keyed by the index of the model.
        confirmation: The confirmation of the kept changes; None until it has run.
    """

    def __init__(
        self, opened: Experiment, application: Application, where: Path, current: Mapping[str, Value]
    ) -> None:
        self.opened, self.application = opened, application
        self.plays = Plays(opened, application, where)
        self.base = Variant(name=RECORDED, settings=current)
        self.kept = replace(self.base, name="kept")
        self.candidates: list[AppCandidate] = []
        self.n_stages = 0
        self.rewriter = Rewriter(application)
        self.rewritten: dict[int, RewrittenAppModel] = {}
        self.confirmation: AppConfirmation | None = None

    @property
    def busy(self) -> bool:
        """Whether other programs used more CPU time than a quiet machine has, in the median over plays."""
        most = quiet_cpus(self.opened.machine.trial_host)
        return bool(self.plays.used_cpus) and float(np.median(self.plays.used_cpus)) > most

    def pilot(self) -> None:
        """Play the base twice and choose the part of the recording that later plays cover within the budget.

        Raises:
            MeasurementError: The recorded calls do not run.
            SearchStopped: The user stopped the search.
        """
        self.plays.required(self.plays.play(self.base))
        self.plays.took_s.clear()  # Caches were cold.
        play = self.plays.required(self.plays.play(self.base))
        self.plays.start_s = max(0.0, self.plays.took_s[-1] - play.wall_ns / 1e9)
        self._take_part(search.n_plays(self.seen()))
        self.plays.mark()

    def _take_part(self, n_plays: int) -> None:
        """Choose a part of the recording short enough for `n_plays` plays in the remaining budget, if possible."""
        self.plays.take_part(self.opened.budget.left_s / (SPARE * n_plays))

    def seen(self) -> search.ApplicationFacts:
        """Return the properties of the recording from which the stages are chosen."""
        cpus = self.opened.machine.trial_host.effective_cpus
        of_models = [len(names) for _, names in self.provider_stages]
        of_models += [len(sets) for _, sets in self.model_stages]
        return seen_of(self.application, self.plays.played, cpus, self.base.settings, of_models)

    @cached_property
    def provider_stages(self) -> list[tuple[int, list[str]]]:
        """Pairs (index of a model, execution providers to test), for the busiest models."""
        if not self.application.recording.is_python:
            return []
        usable = usable_providers(self.application.runtime)
        found = [
            (index, providers_for(self.application, index, usable)) for index in busiest(self.application)
        ]
        return [(index, names) for index, names in found if names]

    @cached_property
    def model_stages(self) -> list[tuple[int, list[tuple[RewriteSpec, ...]]]]:
        """Pairs (index of a model, sets of rewrites to test), for the busiest models."""
        if not self.application.recording.is_python:
            return []
        found = [(index, proposed(self.application, index)) for index in busiest(self.application)]
        return [(index, sets) for index, sets in found if sets]

    def run(self) -> None:
        """Test the stages, confirm the kept changes, then measure other forms of the calls, as far as time allows.

        Raises:
            MeasurementError: The kept configuration failed.
            SearchStopped: The user stopped the search.
        """
        stages = search.stages(self.seen())
        self.n_stages = len(stages) + len(self.provider_stages) + len(self.model_stages)
        for number, stage in enumerate(stages):
            plays = search.SCREEN_BLOCKS * (1 + len(stage))
            after = 3 * search.LEAST_BLOCKS if self.keeps else 0
            if not self._fits(plays + after):
                break
            self.opened.watch.line(f"stage {number + 1} of {self.n_stages}")
            self._stage(stage)
        for number, (index, names) in enumerate(self.provider_stages, len(stages)):
            if not self._fits(search.SCREEN_BLOCKS * (1 + len(names)) + 3 * search.LEAST_BLOCKS):
                break
            self.opened.watch.line(f"stage {number + 1} of {self.n_stages}")
            self._provider_stage(index, names)
        for number, (index, sets) in enumerate(self.model_stages, len(stages) + len(self.provider_stages)):
            if not self._fits(search.SCREEN_BLOCKS * (1 + len(sets)) + 3 * search.LEAST_BLOCKS):
                break
            self.opened.watch.line(f"stage {number + 1} of {self.n_stages}")
            self._model_stage(index, sets)
        self._as_variable()
        if self.keeps:
            if not self._fits(3 * search.LEAST_BLOCKS):
                # The stages took longer than expected, on a busier machine or to rewrite models.
                self._take_part(3 * search.LEAST_BLOCKS)
            n_blocks = min(
                search.MOST_BLOCKS, int(self.opened.budget.left_s / (3 * SPARE * self.plays.play_s))
            )
            if n_blocks >= search.LEAST_BLOCKS:
                self._confirm(n_blocks)
        for form in sorted(self.seen().forms):
            if self._fits(2 * search.LEAST_BLOCKS):
                self._ask(form)

    @property
    def late_share(self) -> float | None:
        """Median delay by the generator as a fraction of the latency; None without calls at given times."""
        return figures.median_known(self.plays.late_shares)

    @property
    def gains(self) -> list[ReplayedGain]:
        """Confirmed gains from settings and from other forms of the calls, as input for the rules."""
        found: list[ReplayedGain] = []
        confirmed = self.confirmation
        if self.verdict == "generator":
            return found
        if confirmed is not None and self.verdict == "faster":
            changed = sorted(self.kept.settings.items() - self.base.settings.items())
            settings = [(name, assignment(name, value)) for name, value in changed]
            settings += [(THREADS.name, f"{name}={value}") for name, value in self.kept.variables.items()]
            every = [text for _, text in settings] + (["shared sessions"] if self.kept.share else [])
            every += ["other execution providers"] if self.kept.providers else []
            every += ["rewritten models"] if self.rewritten else []
            found += [
                figures.gain(
                    search.KINDS[name], text, confirmed.cpu, confirmed.wall, [o for o in every if o != text]
                )
                for name, text in settings
                if name in search.KINDS
            ]
        for each in self.candidates:
            if each.status == "confirmed" and each.cpu is not None and each.wall is not None:
                found.append(figures.gain(each.form, "", each.cpu, each.wall, []))  # type: ignore[arg-type]
        return found

    @property
    def verdict(self) -> Verdict:
        """The verdict on the kept changes."""
        confirmed, nothing = self.confirmation, not self.keeps
        if self.candidates and (self.late_share or 0) > LATE_SHARE:
            return "generator"
        if confirmed is None:
            if not self.candidates:
                return "nothing-tested" if nothing else "inconclusive"
            return "not-shown" if nothing else "inconclusive"
        if not confirmed.same_ok:
            return "invalid"
        if confirmed.outputs is not None and not confirmed.outputs.ok:
            return "wrong-output"
        return search.judged(confirmed.cpu, confirmed.wall, busy=self.busy)

    def _ask(self, form: search.Form) -> None:
        """Measure in separate blocks whether a different form of the calls saves time, and add its row."""
        changed = replace(self.kept, name=form, forms=frozenset({form}))
        plays = self.plays.blocks({"kept": self.kept, form: changed}, search.LEAST_BLOCKS)
        base, own = plays["kept"], plays[form]
        if isinstance(own, str) or isinstance(base, str):
            self.candidates.append(AppCandidate(form=form, status="failed", why=str(own)))
            return
        cpu, wall = figures.ratios(own, base)
        gained = search.judged(cpu, wall, busy=self.busy) == "faster"
        self.candidates.append(
            AppCandidate(
                form=form,
                cpu=cpu,
                wall=wall,
                status="confirmed" if gained else "dropped",
            )
        )

    @property
    def enough_s(self) -> float:
        """Budget, in seconds, expected to suffice for a confirmation, and for the stages if no change was tested."""
        left_s = max(0.0, self.opened.budget.left_s)
        plays = 3 * search.LEAST_BLOCKS if self.candidates else search.n_plays(self.seen())
        needed_s = SPARE * plays * self.plays.play_s
        return self.opened.budget.total_s + max(0.0, 1.2 * (needed_s - left_s))

    def _fits(self, plays: int) -> bool:
        return SPARE * plays * self.plays.play_s < self.opened.budget.left_s

    def _stage(self, stage: Sequence[Mapping[str, Value]]) -> None:
        """Test each change of a stage on top of the kept changes, add rows, and keep the best if it gains enough."""
        arms = {str(i): self._variant(change) for i, change in enumerate(stage)}
        plays = self.plays.blocks({"kept": self.kept, **arms}, search.SCREEN_BLOCKS)
        base = plays.pop("kept")
        found = []
        for name, own in plays.items():
            variant = arms[name]
            if isinstance(own, str):
                self.candidates.append(figures.candidate(stage[int(name)], status="failed", why=own))
                continue
            assert not isinstance(base, str)
            cpu, wall = figures.ratios(own, base)
            found.append((search.score(cpu, wall, busy=self.busy), len(self.candidates), variant))
            self.candidates.append(figures.candidate(stage[int(name)], cpu=cpu, wall=wall))
        best = min(found, default=None, key=lambda each: each[0])
        if best is not None and best[0] < 1 - search.WORTH:
            self.kept = best[2]
            changed = self.candidates[best[1]]
            self.candidates[best[1]] = figures.kept(changed)

    @property
    def keeps(self) -> bool:
        """Whether any change was kept."""
        return self.kept != replace(self.base, name="kept")

    def _provider_stage(self, index: int, names: Sequence[str]) -> None:
        """Test execution providers for a model on top of the kept changes, and keep the best if it gains enough."""
        model = self.application.paths[index].name
        arms = {name: replace(self.kept, providers={**self.kept.providers, index: name}) for name in names}
        made = {name: figures.placed(model, name) for name in names}
        best = self._best_of_model(arms, made)
        if best:
            self.kept = arms[best]

    def _model_stage(self, index: int, sets: Sequence[Sequence[RewriteSpec]]) -> None:
        """Test rewritten forms of a model on top of the kept changes, and keep the best if it gains enough."""
        name = self.application.paths[index].name
        made: dict[str, RewrittenAppModel] = {}
        for number, specs in enumerate(sets):
            try:
                limit_s = max(10.0, REWRITING_SHARE * self.opened.budget.left_s)
                made[str(number)] = self.rewriter.rewritten(index, specs, limit_s)
            except OrtuneError as error:
                self.candidates.append(figures.rewriting(name, specs, status="failed", why=error.what))
        arms = {
            number: replace(self.kept, models={**self.kept.models, index: each.path})
            for number, each in made.items()
        }
        self.opened.replay.record_other_work()  # A rewrite is not a trial, but its time counts.
        tried = {number: figures.rewriting(name, each.specs) for number, each in made.items()}
        best = self._best_of_model(arms, tried)
        if best:
            self.kept, self.rewritten[index] = arms[best], made[best]

    def _best_of_model(self, arms: Mapping[str, Variant], tried: Mapping[str, AppCandidate]) -> str:
        """Measure candidates for one model, add their rows, and return the name of the best to keep; "" for none."""
        plays = self.plays.blocks({"kept": self.kept, **arms}, search.SCREEN_BLOCKS) if arms else {}
        base, best = plays.pop("kept", []), (1 - search.WORTH, -1, "")
        for key, own in plays.items():
            if isinstance(own, str) or isinstance(base, str):
                self.candidates.append(msgspec.structs.replace(tried[key], status="failed", why=str(own)))
                continue
            cpu, wall = figures.ratios(own, base)
            best = min(best, (search.score(cpu, wall, busy=self.busy), len(self.candidates), key))
            self.candidates.append(msgspec.structs.replace(tried[key], cpu=cpu, wall=wall))
        if best[2]:
            self.candidates[best[1]] = figures.kept(self.candidates[best[1]])
        return best[2]

    def _as_variable(self) -> None:
        """Replace a kept number of threads with its environment variable, if it applies and nothing else was kept."""
        versions = {process.onnxruntime for process in self.application.recording.processes}
        versions |= {self.application.version}
        own = [settings_of(session) for session in self.application.recording.sessions]
        alone = replace(self.kept, settings={}) == Variant(name="kept") and set(self.kept.settings) == {
            THREADS.name
        }
        known = all(version and not why_too_old(VARIABLE, version) for version in versions)
        if alone and known and not self.base.settings and not any(THREADS.name in each for each in own):
            value = str(self.kept.settings[THREADS.name])
            self.kept = Variant(name="kept", variables={VARIABLE.key: value})

    def _variant(self, change: Mapping[str, Value]) -> Variant:
        if "share" in change:
            return replace(self.kept, share=True)
        return replace(self.kept, settings={**self.kept.settings, **change})

    def _confirm(self, n_blocks: int) -> None:
        """Play the base, a copy of the base (A/A check) and the kept changes in up to `n_blocks` blocks."""
        arms = {RECORDED: self.base, AGAIN: self.base, "kept": self.kept}
        plays: dict[str, list[AppPlay]] = {name: [] for name in arms}
        outputs = {name: self.opened.scratch / f"outputs-{name}" for name in (RECORDED, "kept")}
        difference: OutputDifference | None = None
        for block in range(n_blocks):
            self.opened.watch.progress(
                f"confirming, block {block + 1} of {n_blocks}",
                self.opened.budget.spent_s,
                self.opened.budget.total_s,
            )
            for name in self.plays.rng.sample(sorted(arms), len(arms)):
                folder = outputs.get(name) if block == 0 else None
                plays[name].append(self.plays.required(self.plays.play(arms[name], folder)))
            self.plays.mark()
            if block == 0:
                difference = self.opened.replay.once(
                    "app-outputs", OutputDifference | None, lambda: self._difference(outputs)
                )
            # On a busier machine fewer blocks fit in the budget; a block is never cut short.
            if block + 1 >= search.LEAST_BLOCKS and not self._fits(3):
                break
        self.confirmation = figures.confirmation(
            plays[RECORDED], plays[AGAIN], plays["kept"], difference, busy=self.busy
        )

    def _difference(self, outputs: Mapping[str, Path]) -> OutputDifference | None:
        """Compare the outputs of all models and return the largest difference; None if no outputs can be compared."""
        for name, variant in ((RECORDED, self.base), ("kept", self.kept)):
            if not outputs[name].is_dir():  # A resumed session has only the times of these plays.
                trial = self.application.play(self.plays.played, variant, outputs[name])
                if trial is None:
                    raise SearchStopped
                if isinstance(trial, TrialError):
                    self.plays.required(trial)
        differences = []
        for index, base in self.application.bases.items():
            places = {}
            for side, folder in (("a", outputs[RECORDED]), ("b", outputs["kept"])):
                place = self.opened.scratch / f"compared-{index}-{side}"
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir()
                for number, script in enumerate(self.plays.played.scripts):
                    for feed, key in enumerate(script.feeds):
                        made = folder / str(number) / str(feed)
                        ref = self.application.refs.get(key.values)
                        if key.model == index and ref is not None and made.is_dir():
                            target = place / ref.name
                            if not target.exists():
                                target.symlink_to(made)
                places[side] = place
            refs = [ref for ref in base.refs if all((place / ref.name).is_dir() for place in places.values())]
            if refs:
                differences.append(base.comparer.difference(places["a"], places["b"], refs, None))
        return worst_of(differences) if differences else None
