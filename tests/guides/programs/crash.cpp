// Follows a pointer that was never set.
#include <cstdio>
struct Node {
    Node *next;
    int value;
};
int sum(const Node *node) {
    int total = 0;
    for (; node->value >= 0; node = node->next) total += node->value;
    return total;
}
int main() {
    Node only{nullptr, 3};
    std::printf("%d\n", sum(&only));
}
