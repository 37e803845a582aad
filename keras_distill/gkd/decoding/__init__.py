"""Decoding: from prompts to completions, fast, with the weights of now."""

from keras_distill.gkd.decoding.generator import Generator as Generator
