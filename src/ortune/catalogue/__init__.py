"""Settings and execution providers as data: one TOML file for each provider, read into typed records.

``cuda.toml`` describes the provider in ``[provider]`` and each of its settings in ``[settings.NAME]``. A setting that
acts under any provider is ``[general.NAME]``, in ``cpu.toml`` or ``web.toml``. A row has the fields of ``Knob`` in
``knob.py``, including its documentation. To add a setting, add a row.

The files are TOML and not Python literals because most of a row is documentation: TOML needs no quotes, commas or
indentation for it, and a row cannot contain code. Reading the files takes 20 ms, as long as importing one module per
setting.

Fields that are not constant are code: ``computed/`` has a module for each setting with values that depend on the model,
the version of ONNX Runtime or the other providers.
"""
