"""The neural-network API of the system, through WebNN in a browser."""

from ortune.providers.provider import PAGE, Provider

PROVIDER = Provider(
    name="webnn",
    target="web-webnn",
    place=PAGE,
    otherwise="onnxruntime-web in a browser that has WebNN",
    options=frozenset({"deviceType", "powerPreference"}),
    fixed_sizes=True,
    int32=True,
    web_builds=("jsep", "asyncify", "jspi"),
    # A context is what is needed in the end: WebNN's object is there in browsers that refuse every context.
    question="navigator.ml?.createContext().then(() => '', (error) => `createContext: ${error.message}`)"
    " ?? 'the browser has no WebNN'",
    browser_flags=("--enable-features=WebMachineLearningNeuralNetwork",),
)
