"""What NCCL itself logs of its failures: warnings, and the reports of its RAS subsystem."""
