// Reads a buffer after it was freed.
#include <cstdio>
#include <vector>
double *first_of(int count) {
    std::vector<double> buffer(count, 1.0);
    return buffer.data();
}
double use(const double *data) { return *data; }
int main() { std::printf("%f\n", use(first_of(100))); }
