"""The compilers of a job's code: what they say when they fail."""
