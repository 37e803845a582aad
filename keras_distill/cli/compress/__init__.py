"""`keras-distill compress`."""
