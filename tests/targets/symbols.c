/* A library with functions, and a variable of each thread that is larger than the code's addresses. */
__thread int local[1 << 20];

int first(void) { return local[7]; }
int second(void) { return 2; }
