"""What the ranks of a job, their stores and torchrun log as it ends."""
