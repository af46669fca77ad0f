"""One file a section of the report; found by walking this folder."""
