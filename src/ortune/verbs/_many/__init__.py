"""One command on several models: the driver, and the answer that lists them."""
