"""Providers that no target runs: profiles and the plans of others may name them."""

from ortune.providers.provider import Bindings, Provider

REMOTE = Provider(
    name="AzureExecutionProvider", bindings=Bindings(by_name="AZURE", rust="Azure")
)  # it calls a service elsewhere

PROVIDERS = (
    REMOTE,
    Provider(name="ACLExecutionProvider", hardware="cpu"),
    Provider(name="CANNExecutionProvider", queues=True),
    Provider(name="JsExecutionProvider", bindings=Bindings(by_name="JS")),
    Provider(name="SNPEExecutionProvider", bindings=Bindings(by_name="SNPE")),
    Provider(name="VitisAIExecutionProvider", bindings=Bindings(by_name="VitisAI", rust="Vitis")),
    Provider(name="WebNNExecutionProvider", bindings=Bindings(by_name="WEBNN")),
)
