"""The ROCm system."""
