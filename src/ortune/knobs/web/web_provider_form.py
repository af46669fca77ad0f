"""How the session options name the execution provider.

What it is: ``executionProviders`` takes a name, ``'webgpu'``, or an object, ``{ name: 'webgpu' }``, which may hold
    options.
Why it costs: no time. With the native builds of 1.30, a session with graph capture and the provider as a string fails
    when it runs, or always returns the outputs of its first run.
Evidence: outputs that do not follow the inputs.
Fix and its safety: always object; exact.
Example: ``--target web-webgpu --set web_provider_form=object``
References: onnxruntime-common, ``ExecutionProviderConfig``.
"""

from ortune.knobs.knob import Knob

KNOB = Knob(
    name="web_provider_form",
    channel="web_page",
    key="providerForm",
    kind="choice",
    choices=("object", "string"),
    default="object",
    summary="the provider as an object or as a name",
)
