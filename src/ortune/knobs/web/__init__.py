"""Settings of onnxruntime-web: of its environment, its sessions, its execution providers and the page."""
