"""Settings of torch.distributed: whether they have an effect."""
