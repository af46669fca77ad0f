"""One file a section of the report of a tuning; found by walking this folder."""
