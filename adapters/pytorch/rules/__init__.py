"""The rules of the PyTorch system."""
