"""Reading Linux: /proc, the memory of other processes, mappings, ABI facts. Looks, never touches.

Invariants:
    linux.L1. Nothing here stops, signals or writes to another process: only reads of /proc,
        `process_vm_readv` and netlink `sock_diag` queries.
    linux.L2. What is gone or denied is an `OSError` (ProcessLookupError, FileNotFoundError,
        PermissionError) of single-item functions, and a `None` of the batched ones.
"""
