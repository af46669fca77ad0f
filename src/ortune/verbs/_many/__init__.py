"""One command on several models: the driver, and the document that lists the models."""
