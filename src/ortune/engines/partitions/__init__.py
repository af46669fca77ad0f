"""Which nodes of a model an execution provider takes, and the regions that they make, without the provider at hand."""
