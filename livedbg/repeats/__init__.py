"""Running a command many times and comparing how the runs ended (`livedbg launch --repeat N CMD`)."""
