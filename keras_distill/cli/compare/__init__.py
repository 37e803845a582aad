"""`keras-distill compare`: does distillation help here, and by how much?"""
