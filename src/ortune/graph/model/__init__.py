"""Model files, opened, inspected and written without loading the weights into memory."""
