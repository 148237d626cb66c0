// A library whose function calls back.
__attribute__((noinline)) long library_calls(long (*back)(long), long value) { return back(value) + 1; }
