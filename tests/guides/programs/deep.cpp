// A graph with a cycle is walked in a thread, until its stack is full.
#include <string>
#include <thread>
#include <vector>
struct Node { std::string name; std::vector<Node *> inputs; };
std::size_t cost(const Node &node);
std::size_t inputs_of(const Node &node) {
    std::size_t sum = 0;
    for (const Node *input : node.inputs) sum += cost(*input);
    return sum;
}
std::size_t cost(const Node &node) {
    std::string label = node.name + ": " + std::to_string(node.inputs.size());
    return label.size() + inputs_of(node);
}
int main() {
    Node add{"add", {}}, mul{"mul", {&add}};
    add.inputs.push_back(&mul);
    std::thread walk([&] { cost(add); });
    walk.join();
}
