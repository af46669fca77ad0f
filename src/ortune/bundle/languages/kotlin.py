"""``Load.kt``: loading code for ``com.microsoft.onnxruntime:onnxruntime`` and ``onnxruntime-android``."""

from __future__ import annotations

from dataclasses import replace

from ortune.bundle.languages import java
from ortune.bundle.languages._literals import QUOTES, Quote, utf16

# The classes are those of Java.
LANGUAGE = replace(
    java.LANGUAGE,
    name="Kotlin",
    file="Load.kt",
    default="Load.default.kt",
    quote=Quote(utf16, "\\u{:04x}", {**QUOTES, "$": "\\$"}),  # "$" starts a template
    text="{}.toString()",
    stored="(cache ?: {})",
    variable="wanted[{}] = {}",
    end="",
    binds=False,
    instead={"call_style": java.KEPT.format("emptySet()")},
)
