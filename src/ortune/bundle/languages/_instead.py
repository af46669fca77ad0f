"""Alternatives for settings that a language's binding does not support."""

from __future__ import annotations

_NO_OPTION = "the {} binding has no such option; load.py sets it"
INSTEAD = {
    "session_option": _NO_OPTION,
    "affinities": _NO_OPTION,
    "run_config": _NO_OPTION,
    "env_allocator": "the {} binding cannot register a shared arena; load.cpp, Load.cs and load.py can",
    "global_pool": "the {} binding cannot create a global thread pool; each session has its own",
    "preload": "it cannot be preloaded there; the default allocator is used",
    "call_style": "the {} binding has no I/O binding; pass the values to each call of run()",
    "rows": "pass at most so many rows in each call of run(), rows of about equal length together, as load.py does",
    "graph": "graph replay needs buffers that stay on the GPU, and only load.py keeps them",
    "page": "applies to browsers only",
    "provider": "the {} binding cannot append it; load.py can",
    "provider_option": "the {} binding has no such option; load.py can",
    "plugin_option": "set for a plug-in only; for a built-in provider the {} binding has no such option",
}
"""Alternatives, keyed by the feature that a binding lacks; ``{}`` is replaced by the name of the language."""
