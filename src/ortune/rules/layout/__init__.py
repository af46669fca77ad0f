"""Rules on the layout of values in memory: LAY."""
