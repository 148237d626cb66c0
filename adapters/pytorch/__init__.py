"""The PyTorch system."""
