"""nvFuser's texts: dumps, error messages, traces and reproduction scripts, read and made. No session, no I/O of its own
but for the functions that say so."""
