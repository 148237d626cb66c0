"""What torch.distributed.elastic writes of workers that failed."""
