"""Settings and execution providers as data: one TOML file for each provider, read into typed records.

``cuda.toml`` describes the provider in ``[provider]`` and each of its settings in ``[settings.NAME]``. A setting that
acts under any provider is ``[general.NAME]``, in ``cpu.toml`` or ``web.toml``. A row has the fields of ``Knob`` in
``knob.py``, its documentation included. Adding a setting is adding a row.

The files are TOML and not Python literals because most of a row is documentation: TOML shows it without quotes, commas
or indentation, followed by what differs from a default, and a row can hold no code. Reading them takes 20 ms, which the
import of one module for each setting takes too.

What is no constant is code: ``computed/`` has a module for each setting whose values depend on the model, the version
of ONNX Runtime or the other providers.
"""
