"""The files that an Ascend run writes beside its log, and the readers of them: task graphs and dumped tensors."""
