"""What a model is fed: what its inputs mean, their sizes and values, and what the user gives."""
