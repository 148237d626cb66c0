"""What runs on CUDA devices, by cuda-gdb from GPU core dumps."""
