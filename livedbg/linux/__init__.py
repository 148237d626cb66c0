"""Reading Linux: /proc, the memory of other processes, mappings, ABI facts.

Invariants:
    linux.L1. Only `ptrace.py` stops a thread, and only `family.py` signals processes (those of a command that livedbg
        started). All else only reads: /proc, `process_vm_readv` and netlink `sock_diag` queries.
    linux.L2. What is gone or denied is an `OSError` (ProcessLookupError, FileNotFoundError,
        PermissionError) of single-item functions, and a `None` of the batched ones.
"""
