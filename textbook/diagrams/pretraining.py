"""Pretraining: the families of models, masking, and where labels enter."""
