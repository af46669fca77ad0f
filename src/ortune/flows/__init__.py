"""One file a verb: ties the rooms together; no arguments parsed, nothing printed."""
