/* A program without any C library: says READY and waits on a futex for ever (x86-64, aarch64). */
static int word = 2;
static long call(long n, long a, long b, long c, long d) {
  long r;
#if defined(__x86_64__)
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
#else
  register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  r = x0;
#endif
  return r;
}
void _start(void) {
  static const char ready[] = "READY\n";
#if defined(__x86_64__)
  call(1, 1, (long)ready, 6, 0);
  for (;;) call(202, (long)&word, 128, 2, 0);
#else
  call(64, 1, (long)ready, 6, 0);
  for (;;) call(98, (long)&word, 128, 2, 0);
#endif
}
