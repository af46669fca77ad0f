"""Settings of the DirectML execution provider."""
