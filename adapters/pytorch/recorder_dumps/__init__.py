"""Dumps of Flight Recorders: the files that torch.distributed writes when a collective runs out of time."""
