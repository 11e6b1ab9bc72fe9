"""Layers, activations and losses that the book does not teach; ``nn`` offers them all."""
