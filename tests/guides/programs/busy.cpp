// Spends its time in attention(), and keeps all that cache() makes.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>
using Row = std::vector<double>;
[[gnu::noinline]] double attention(const Row &row) {
    double sum = 0;
    for (double x : row) sum += std::sin(x) * std::exp(-x);
    return sum;
}
[[gnu::noinline]] double norm(const Row &row) {
    double sum = 0;
    for (double x : row) sum += x * x;
    return sum;
}
[[gnu::noinline]] void cache(std::vector<Row> &rows) { rows.emplace_back(20000, 1.0); }
int main(int, char **words) {
    Row row(100000, 0.5);
    std::vector<Row> kept;
    double sum = 0;
    while (std::clock() < std::atof(words[1]) * CLOCKS_PER_SEC) {
        sum += attention(row) + norm(row);
        cache(kept);
    }
    std::printf("%f\n", sum);
}
