"""Execution providers in separate wheels for a plain onnxruntime, found in this interpreter's environment.

The path of a library always comes from its wheel, never from a plan. The probe of interpreters also runs this file, so
it imports nothing of the package.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
from typing import Any, Dict, List, Optional, Tuple, Type

USUAL_DEVICE = {"OpenVINOExecutionProvider": "CPU"}
"""Default device of a provider, as in its classic build; for others the first device that is not a CPU."""


class Unusable(Exception):
    """A provider cannot be used from its wheel; the message gives the reason."""


@functools.lru_cache(maxsize=None)
def wheels() -> Dict[str, Tuple[str, str]]:
    """Return the wheels with providers, by provider: the wheel with its version, and the module to import.

    A wheel is recognised by its module's definitions, since onnxruntime-qnn became such a wheel at 2.0 under a build's
    name.
    """
    provider_of: Dict[str, Tuple[str, str]] = {}
    for wheel in importlib.metadata.distributions():
        name = (wheel.metadata["Name"] or "").lower().replace("_", "-")
        if not name.startswith("onnxruntime-"):
            continue
        for file in wheel.files or ():
            package, _, rest = str(file).replace("\\", "/").partition("/")
            if rest != "__init__.py" or package == "onnxruntime":
                continue
            try:
                with open(str(wheel.locate_file(file)), encoding="utf-8") as source:
                    text = source.read()
            except (OSError, UnicodeDecodeError):
                continue
            if "def get_library_path" in text and "def get_ep_name" in text:
                for provider in _names(package):
                    provider_of.setdefault(provider, ("%s %s" % (name, wheel.version), package))
    return provider_of


def _names(package: str) -> List[str]:
    try:
        module = importlib.import_module(package)
        return list(module.get_ep_names()) if hasattr(module, "get_ep_names") else [module.get_ep_name()]
    except (ImportError, OSError, RuntimeError):
        return []  # a wheel that cannot be imported provides nothing


def attached(ort: Any, session_options: Any, providers: List[Any]) -> List[str]:
    """Add providers from separate wheels to the session's options; return the devices of the first, or [].

    This applies only if the build lacks the first provider.

    The session is then created without providers, since its options contain them.

    Args:
        ort: onnxruntime.
        session_options: Session options to extend.
        providers: Names, or pairs of name and options, as for InferenceSession.

    Raises:
        Unusable: A provider is unavailable in its wheel, or is not of the same kind as the first.
    """
    specs = [(provider, {}) if isinstance(provider, str) else provider for provider in providers]
    specs = [(name, own) for name, own in specs if name != "CPUExecutionProvider"]
    if not specs or specs[0][0] in ort.get_available_providers():
        return []
    kind: List[str] = []
    for number, (name, own) in enumerate(specs):
        device = attach(ort, session_options, name, own)
        if device is None:
            if number:
                raise Unusable(
                    "%s is built in and %s is a plug-in: one session cannot use both" % (name, specs[0][0])
                )
            return []
        kind = kind or kinds(device)
    return kind


def attach(ort: Any, session_options: Any, provider: str, options: Dict[str, str]) -> Optional[Any]:
    """Add a provider from its wheel to the session's options; return its device, None if no wheel has it.

    Raises:
        Unusable: The wheel's library cannot be registered, or offers no such device.
    """
    wheel, package = wheels().get(provider, ("", ""))
    if not wheel:
        return None
    own = dict(options)
    device = _device(devices(ort, provider, wheel, package), wheel, own.pop("device_type", ""))
    session_options.add_provider_for_devices([device], own)
    return device


@functools.lru_cache(maxsize=None)
def devices(ort: Any, provider: str, wheel: str, package: str) -> List[Any]:
    """Return the devices of a wheel's provider, after registering its library once per process."""
    if not hasattr(ort, "register_execution_provider_library"):
        raise Unusable("onnxruntime %s cannot register the library of %s" % (ort.__version__, wheel))
    state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    # ONNX Runtime has one exception class per status, without a common base class.
    refusals: Tuple[Type[Exception], ...] = (OSError, RuntimeError)
    refusals += tuple(k for k in vars(state).values() if isinstance(k, type) and issubclass(k, Exception))
    try:
        library = importlib.import_module(package).get_library_path()
        # Some libraries name their provider as they are registered, so the provider's name is used.
        ort.register_execution_provider_library(provider, library)
    except refusals as error:
        raise Unusable(
            "onnxruntime %s cannot register the library of %s: %s" % (ort.__version__, wheel, error)
        ) from error
    return [device for device in ort.get_ep_devices() if device.ep_name == provider]


def _device(offered: List[Any], wheel: str, wanted: str) -> Any:
    if not offered:
        raise Unusable("%s found no device" % wheel)
    usual = USUAL_DEVICE.get(offered[0].ep_name, "")
    for kind in filter(None, (wanted or usual,)):
        for device in offered:
            if kind.upper() in kinds(device):
                return device
    if wanted:
        there = ", ".join(sorted({kind for device in offered for kind in kinds(device)}))
        raise Unusable("%s found no device %s: %s" % (wheel, wanted, there))
    return next((device for device in offered if device.device.type.name != "CPU"), offered[0])


def kinds(device: Any) -> List[str]:
    """Return the names of a device: its type, and the provider's name for it."""
    own = dict(device.ep_metadata).get("ov_device", "")
    return list(dict.fromkeys(filter(None, (device.device.type.name, own.upper()))))
