"""On-policy distillation of causal language models."""
