"""What torch.compile writes of its work: structured traces (TORCH_TRACE) and text (TORCH_LOGS)."""
