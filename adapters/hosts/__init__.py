"""What kernels, schedulers, launchers of processes and shells write of how a job ended."""
