"""Language models: a teacher, a start, on-policy distillation, scores."""
