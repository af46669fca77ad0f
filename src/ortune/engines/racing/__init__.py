"""The race of plans that several verbs share: running plans in processes, entering plans, confirming the winner."""
