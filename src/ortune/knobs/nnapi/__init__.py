"""Settings of the NNAPI execution provider."""
