"""Native stacks from copied registers and stack tops, unwound off-line by drgn or by a gdb that is never attached."""
