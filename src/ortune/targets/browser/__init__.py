"""Targets in a browser: the browser process, onnxruntime-web, the HTTP server, and the page that runs a trial."""
