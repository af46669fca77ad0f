"""Code shared by the options of several verbs: groups, spelling, and the measurement that they describe."""
