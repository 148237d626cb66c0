"""The IREE system."""
