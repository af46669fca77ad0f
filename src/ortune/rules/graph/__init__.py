"""Rules on the nodes of the graph: GRA."""
