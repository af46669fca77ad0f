"""Race of plans, shared by several verbs: enters plans, runs them in processes, and confirms the winner."""
