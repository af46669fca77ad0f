"""Files as a stranger might send them: each module makes those of one kind of attack."""
