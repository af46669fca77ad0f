"""Settings of a page: the build that it imports, ``ort.env``, and the options of its session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ortune.catalogue import knobs
from ortune.catalogue.named import WEB_BUILD as BUILD
from ortune.catalogue.named import WEB_INPUT_LOCATION as INPUTS
from ortune.catalogue.named import WEB_ISOLATION as ISOLATION
from ortune.catalogue.named import WEB_PROVIDER_FORM as FORM
from ortune.catalogue.named import WEB_THREADS as THREADS
from ortune.records import Applied, ProviderSpec, Value

_USUAL_THREADS = 4  # maximum default; it is half of the processors, rounded up


@dataclass(frozen=True, slots=True, kw_only=True)
class InPage:
    """The settings of a page for one provider, as plain JSON values.

    Attributes:
        build: The build of onnxruntime-web, as a value of ``web_build``; "" if not set.
        env: Values for ``ort.env`` by key, with dots between the parts.
        session: The options of ``InferenceSession.create``, including the provider.
        inputs: Location of the inputs of a run: "cpu" or "gpu-buffer".
    """

    build: str
    env: dict[str, Any]
    session: dict[str, Any]
    inputs: str


def in_page(provider: ProviderSpec, applied: Iterable[Applied]) -> InPage:
    """Return the settings of a page for a provider: those for any provider, and the provider's own."""
    own = [s for s in applied if s.provider in ("", provider.name)]
    page = {s.knob: str(s.value) for s in own if s.channel == "web_page"}
    session: dict[str, Any] = {"executionProviders": [_provider(provider, own, page.get(FORM.name, ""))]}
    for setting in own:
        if setting.channel == "web_session":
            _put(session, setting.key.split("."), _value(setting))
    return InPage(
        build=page.get(BUILD.name, ""),
        env={s.key: _value(s) for s in own if s.channel == "web_env"},
        session=session,
        inputs=page.get(INPUTS.name, "cpu"),
    )


def threads_in_page(settings: Mapping[str, Value], cpus: int) -> int:
    """Return the number of WebAssembly threads: the requested one, or onnxruntime-web's default for ``cpus``."""
    if settings.get(ISOLATION.name) is False:
        return 1
    asked = settings.get(THREADS.name)
    return min(asked, cpus) if isinstance(asked, int) and asked > 0 else min(_USUAL_THREADS, -(-cpus // 2))


def _provider(provider: ProviderSpec, own: Sequence[Applied], form: str) -> dict[str, Any] | str:
    """Return the provider as an object, or as its name if ``form`` is "string" and the provider has no options."""
    entry: dict[str, Any] = {"name": provider.name}
    entry.update({key: int(text) if text.isdecimal() else text for key, text in provider.options.items()})
    entry.update({s.key: _value(s) for s in own if s.channel == "provider_option"})
    return provider.name if form == "string" and len(entry) == 1 else entry


def _value(setting: Applied) -> Any:
    return knobs.find(setting.knob).javascript(setting.value)


def _put(tree: dict[str, Any], way: Sequence[str], value: object) -> None:
    for part in way[:-1]:
        tree = tree.setdefault(part, {})
    tree[way[-1]] = value
