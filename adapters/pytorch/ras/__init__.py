"""NCCL's RAS service: asked only where the user wants it."""
