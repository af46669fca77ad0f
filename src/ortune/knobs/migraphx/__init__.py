"""Settings of the MIGraphX execution provider."""
