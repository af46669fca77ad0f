"""Settings of the XNNPACK execution provider."""
