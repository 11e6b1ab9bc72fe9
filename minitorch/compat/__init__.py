"""What PyTorch has and the book does not teach, kept for programs from elsewhere.

Here are functions on tensors, data types' limits and the tensor types of old; ``nn.compat`` has
layers and losses, ``optim.compat`` optimizers. Nobody has to read this to understand the library.
"""
