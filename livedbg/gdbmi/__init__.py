"""gdb over MI: one asyncio engine, used to unwind stack copies (and, by request only, to attach)."""
