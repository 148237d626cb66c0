"""Native stacks from copied registers and stack tops, unwound off-line in a gdb that is never attached."""
