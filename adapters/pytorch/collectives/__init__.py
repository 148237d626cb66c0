"""Collectives of torch.distributed, read from the Flight Recorders of running processes."""
