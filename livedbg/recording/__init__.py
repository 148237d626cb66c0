"""The event stream in a file, and back from it."""
