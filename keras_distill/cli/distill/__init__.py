"""`keras-distill distill`."""
