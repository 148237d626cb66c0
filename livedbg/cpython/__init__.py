"""Reads CPython interpreters of other processes: where they are, their threads and frames, objects, exceptions."""
