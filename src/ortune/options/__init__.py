"""Options of each verb, one file a verb; a verb's help imports nothing else."""
