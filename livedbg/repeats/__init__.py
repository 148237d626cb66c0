"""Running a command many times and comparing how the runs ended (`launch --repeat`)."""
