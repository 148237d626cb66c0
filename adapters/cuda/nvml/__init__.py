"""GPUs as NVIDIA's management library (NVML) counts them: how busy, how full, how hot, who uses them."""
