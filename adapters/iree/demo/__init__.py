"""The demo of the IREE system: a dispatch that never ends."""
