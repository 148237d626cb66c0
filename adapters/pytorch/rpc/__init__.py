"""torch.distributed.rpc: who asks whom for which function, and which threads carry it out."""
