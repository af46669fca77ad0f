"""Rules on the validity of a measurement: MSR."""
