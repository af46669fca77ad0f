"""One file a verb: what happens, in order, and what it can be asked; no arguments parsed, nothing printed."""
