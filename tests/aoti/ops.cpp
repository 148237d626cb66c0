// Custom operators: guide::hang never returns, guide::throw throws.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <unistd.h>

#include <stdexcept>

using torch::stable::Tensor;

Tensor hang(Tensor x) {
    for (;;) pause();
    return x;
}

Tensor fail(Tensor x) { throw std::runtime_error("table of rows is empty"); }

STABLE_TORCH_LIBRARY(guide, m) {
    m.def("hang(Tensor x) -> Tensor");
    m.def("throw(Tensor x) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(guide, CPU, m) {
    m.impl("hang", TORCH_BOX(&hang));
    m.impl("throw", TORCH_BOX(&fail));
}
