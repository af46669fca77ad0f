"""Code that several verbs share: groups of options and their spelling, and the experiments that options describe."""
