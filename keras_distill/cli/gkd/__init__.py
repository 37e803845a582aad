"""`keras-distill gkd`: a language model distilled on its own samples."""
