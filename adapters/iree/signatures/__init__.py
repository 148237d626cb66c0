"""Failure texts of IREE and Vulkan, as data (docs/signatures.md)."""
