"""Writing a bundle, under a temporary name that is then changed, so a bundle is complete or absent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import msgspec

from ortune import files
from ortune.bundle import digests
from ortune.bundle.deploy import deploy_files
from ortune.bundle.format import SUFFIX, portable_name
from ortune.bundle.languages import claim, emit_all, languages
from ortune.bundle.package import MANIFEST, manifest
from ortune.bundle.readme import README, readme
from ortune.bundle.settings import needed_instructions, portable, resolve
from ortune.bundle.shared import INDEX, SCHEMA, WORKLOAD, is_inside
from ortune.bundle.web import FILES, locations, web_files
from ortune.catalogue.providers import CPU, find
from ortune.errors import ModelError, UsageError
from ortune.graph.model.open import OpenModel, open_model
from ortune.graph.model.origin import source_of
from ortune.inputs.value_files import read_index, write_npz, write_protobufs
from ortune.records import BundleInfo, Delivery, Host, Workload

_OWN_NAMES = frozenset({
    INDEX, "report.html", WORKLOAD, "inputs", "outputs", "feeds.npz", "plain", "custom_ops", "deploy",
    digests.SUMS, MANIFEST, README,
})  # fmt: skip
_COUNTED_NAMES = 10_000
_OF_REPORTS = (".json", ".html", ".txt", ".md")
"""Endings of the files that other commands write to ``--output``."""


def write_bundle(
    delivery: Delivery,
    workload: Workload,
    host: Host,
    *,
    model: Path,
    rewritten: Path | None,
    feeds: Path,
    outputs: Path | None,
    report_html: str,
    directory: Path,
    force: bool,
    model_settings: tuple[str, ...] = (),
) -> Path:
    """Write ``NAME.ortune`` with the model, its settings, code that loads it, and the proof.

    Args:
        delivery: Content of the bundle.
        workload: The workload of the measurement.
        host: The tuned machine.
        model: The user's model.
        rewritten: The winner's model if a rewrite created one: ortune's own file, which does not change. None, or
            ``model`` itself, if no rewrite changed anything.
        feeds: Folder with ``feeds.json``.
        outputs: Folder with ``outputs.json``, the outputs of the default plan for those feeds.
        report_html: Text of ``report.html``.
        directory: Folder for the bundle, which is created if needed.
        force: Whether to replace an existing bundle; otherwise the new one is named ``NAME-2``, ``NAME-3`` …
        model_settings: Names of the settings that belong to a hardware-bound ``rewritten``.

    Returns:
        The bundle's folder.

    Raises:
        UsageError: The bundle cannot be written to ``directory``, or something else exists under its name.
        ModelError, InputError: The model, the feeds or the outputs cannot be read.
    """
    goal = goal_of(directory, model)
    if force:
        require_replaceable(directory, model)
    with temporary_folder(directory, goal) as work:
        own_ops = _copy_custom_ops(workload, work)
        if rewritten is not None and rewritten.samefile(model):
            rewritten = None
        info, shipped, plain = _copy_models(delivery, host, model, rewritten, work, model_settings)
        _write_values(feeds, outputs, {value.name for value in shipped.ir.graph.outputs}, work)
        used = _portable_workload(workload, own_ops)
        if delivery.winner.is_web:
            texts = web_files(info, shipped, plain)
        else:
            texts = {**emit_all(info, own_ops), **deploy_files(delivery, info, used, shipped.ir)}
            package = manifest(info, own_ops)
            texts |= {MANIFEST: package} if package else {}
        texts[INDEX] = _json(info)
        texts[WORKLOAD] = _json(used)
        texts["report.html"] = report_html
        there = {*texts, *(name.partition("/")[0] for name in texts), *(path.name for path in work.iterdir())}
        loaders = [language.file for language in languages()]
        texts[README] = readme(info, delivery.headline, Path(model).name, there, loaders)
        for name, text in texts.items():
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text(text, encoding="utf-8")
        digests.write(work)
        return move_to_goal(work, goal, force)


def require_writable(folder: Path) -> None:
    """Raise an error, before a budget is spent, if no bundle could be written to a folder.

    Raises:
        UsageError: The folder is not writable, or its name is that of a report.
    """
    if folder.suffix.lower() in _OF_REPORTS and not folder.is_dir():
        raise UsageError(
            "--output is the folder of the bundle, and this is the name of a file",
            where=f"--output {folder}",
            do=f"choose a folder; for the result as JSON, use --json > {folder.with_suffix('.json')}",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.require_writable_folder(folder)
    except OSError as error:
        raise UsageError(
            f"the bundle cannot be written there: {error.strerror}",
            where=f"--output {folder}",
            do="choose another folder, or --no-bundle",
        ) from error


def require_replaceable(directory: Path, model: Path) -> None:
    """Raise an error, before a budget is spent, if a new bundle would replace something that is not a bundle.

    Raises:
        UsageError: Something else exists under the bundle's name.
    """
    goal = goal_of(directory, model)
    if files.exists(goal) and not files.is_file(goal / INDEX):
        raise UsageError(
            "exists and is not a bundle, so it is not replaced",
            where=str(goal),
            do="move it, or choose another --output",
        )


def goal_of(directory: Path, model: Path) -> Path:
    """Return the path of a model's bundle in ``directory``."""
    return directory / (model.stem + SUFFIX)


def _copy_models(
    delivery: Delivery,
    host: Host,
    model: Path,
    rewritten: Path | None,
    work: Path,
    model_settings: tuple[str, ...],
) -> tuple[BundleInfo, OpenModel, OpenModel]:
    """Copy the plan's model and, if it is rewritten, the original to a subfolder; return the index and both models."""
    shipped = open_model(rewritten or model)
    bound = delivery.hardware_bound and rewritten is not None
    # Not under the name of one of the bundle's own files.
    ours = _OWN_NAMES | {*FILES, *(language.file for language in languages())}
    clash = {PurePosixPath(name).parts[0] for name in (shipped.path.name, *locations(shipped))} & ours
    own = portable_name(model.name if rewritten is None else model.stem + rewritten.suffix)
    place = f"model/{own}" if clash or own in ours else own
    copy_model(shipped, work / place, ours=rewritten is not None)
    _require_same(work / place, shipped)
    # The untouched model is for repeating the proof, and the fallback of a hardware-bound model on other
    # machines.
    plain = open_model(model) if rewritten is not None else shipped
    plain_place = f"plain/{portable_name(model.name)}" if rewritten is not None else ""
    if plain_place:
        copy_model(plain, work / plain_place, ours=False)
        _require_same(work / plain_place, plain)
    plan = portable(delivery.winner)
    info = BundleInfo(
        schema=SCHEMA,
        model=place,
        sha256=shipped.sha256,
        plan=plan,
        fallback=portable(delivery.fallback) if delivery.fallback is not None else None,
        plain_model=plain_place,
        hardware_bound=bound,
        model_settings=model_settings if bound else (),
        host=host,
        proof=delivery.proof,
        applied=resolve(plan),
        instructions=needed_instructions(plan),
        ort_version=delivery.ort_version,
        node=delivery.runtime.node is not None,
        requirements=_requirements(delivery),
        session=delivery.session,
        calibration=delivery.calibration,
        source=source_of(plain.ir),
    )
    info = msgspec.structs.replace(info, contains=f"the model {claim(info)}")
    return info, shipped, plain


def _requirements(delivery: Delivery) -> tuple[str, ...]:
    """Return the packages to install instead of a plain onnxruntime; empty if a plain onnxruntime is enough."""
    if delivery.adoption is not None:
        return delivery.adoption.requirements
    runtime = delivery.runtime
    provider = find(delivery.winner.provider_names[0])
    if provider == CPU or runtime.package != provider.wheel:
        return ()
    return (f"{provider.wheel}{provider.extras}=={runtime.ort_version}",)


def copy_model(opened: OpenModel, goal: Path, *, ours: bool) -> None:
    """Copy a model file, and its external data to the same relative paths."""
    _copy(opened.path, goal, ours=ours)
    for location in locations(opened):
        # Inside the model's folder through a link, but outside here.
        if not is_inside(location):
            raise UsageError(
                f"its weights {location!r} would be stored outside the bundle",
                where=str(opened.path),
                do="save the model again with its external data in the same folder",
            )
        _copy(opened.path.parent / location, goal.parent / location, ours=ours)


def _require_same(copy: Path, measured: OpenModel) -> None:
    """Verify that the bundle's model, with the weights that it finds in the bundle, is the measured model.

    Raises:
        ModelError: The model is a different one, or incomplete.
    """
    if open_model(copy).sha256 != measured.sha256:
        raise ModelError(
            "The model changed while its bundle was written.",
            where=str(measured.path),
            do="Run again when no other program writes to it.",
            code="model-changed",
        )


def _copy(source: Path, goal: Path, *, ours: bool) -> None:
    """Copy a file, or create a hard link if the file is ``ours`` and therefore never overwritten.

    The user's own files are copied, since an exporter that overwrites the model in place would change a linked one.
    """
    goal.parent.mkdir(parents=True, exist_ok=True)
    if ours and not source.is_symlink():
        try:
            os.link(source, goal)
            return
        except OSError:
            pass  # another file system, or one without links
    shutil.copyfile(source, goal)


def _copy_custom_ops(workload: Workload, work: Path) -> tuple[str, ...]:
    """Copy the libraries with custom operators, and return their paths in the bundle."""
    places = []
    for number, library in enumerate(workload.custom_ops):
        place = f"custom_ops/{number}-{Path(library).name}"
        _copy(Path(library), work / place, ours=False)
        places.append(place)
    return tuple(places)


def _write_values(feeds: Path, outputs: Path | None, names: Collection[str | None], work: Path) -> None:
    """Write the inputs, and the default plan's outputs that the shipped model has too."""
    values = read_index(feeds, "feeds")
    write_protobufs(values, work / "inputs", "input")
    write_npz(values, work / "feeds.npz")
    if outputs is not None:
        kept = [value for value in read_index(outputs, "outputs") if value.name in names]
        write_protobufs(kept, work / "outputs", "output")


def _portable_workload(workload: Workload, own_ops: tuple[str, ...]) -> Workload:
    """Return the workload with paths inside the bundle only."""
    inputs = "inputs" if workload.inputs_path else ""
    return msgspec.structs.replace(workload, inputs_path=inputs, image="", custom_ops=own_ops)


def _json(record: BundleInfo | Workload) -> str:
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode() + "\n"


@contextmanager
def temporary_folder(directory: Path, goal: Path) -> Iterator[Path]:
    """Provide a folder in ``directory`` in which a bundle is written, and remove it unless it was renamed to its goal.

    Raises:
        UsageError: A file of the bundle cannot be written.
    """
    work = None
    try:
        directory.mkdir(parents=True, exist_ok=True)
        work = _fresh_folder(directory)
        yield work
    except OSError as error:
        raise UsageError(
            f"the bundle cannot be written: {error.strerror or error}",
            where=str(error.filename or goal),
            do="choose another folder with --output",
        ) from error
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


def _fresh_folder(directory: Path) -> Path:
    """Create a temporary folder in the directory of the bundle, so a single rename finishes the bundle."""
    number = 0
    while True:
        folder = directory / f".ortune-{os.getpid()}-{number}.tmp"
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
            continue
        return folder


def move_to_goal(work: Path, goal: Path, force: bool) -> Path:
    """Rename the finished folder ``work`` to ``goal``, or to the first free numbered name, and return its path.

    With ``force``, an existing folder at ``goal`` is replaced.
    """
    if force and goal.exists():
        # Moved aside first, since a folder cannot be renamed over a non-empty one.
        aside = _fresh_folder(goal.parent)
        goal.rename(aside / goal.name)
        try:
            work.rename(goal)
        except OSError:
            (aside / goal.name).rename(goal)
            aside.rmdir()
            raise
        shutil.rmtree(aside, ignore_errors=True)
        return goal
    for number in range(1, _COUNTED_NAMES):
        candidate = goal if number == 1 else goal.with_name(f"{goal.stem}-{number}{SUFFIX}")
        if candidate.exists() or candidate.is_symlink():
            continue
        try:
            work.rename(candidate)
        except (FileExistsError, NotADirectoryError):
            continue  # another process was faster
        except OSError:
            if not candidate.exists():
                raise
            continue  # a non-empty folder was created meanwhile
        return candidate
    raise UsageError(
        "too many numbered bundles exist already", where=str(goal), do="use --force, or remove some"
    )
