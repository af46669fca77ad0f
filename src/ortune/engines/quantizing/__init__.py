"""Models in fewer bits for any verb: made, run, and their outputs compared with those of the float model."""
