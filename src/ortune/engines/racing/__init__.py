"""A race of plans for any verb: plans as processes, the confirmation of the winner, the answer, the bundle."""
