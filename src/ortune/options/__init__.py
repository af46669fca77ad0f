"""What each verb can be asked, one file a verb; a verb's help imports nothing else."""
