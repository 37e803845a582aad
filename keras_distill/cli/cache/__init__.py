"""`keras-distill cache`."""
