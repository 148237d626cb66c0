"""Commands of CUDA: `livedbg device`, `livedbg launches`."""
