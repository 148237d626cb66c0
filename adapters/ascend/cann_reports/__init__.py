"""What CANN, torch_npu, HCCL and MindSpore print when something fails on an NPU: lines in, one report a process out."""
