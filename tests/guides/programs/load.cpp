#include <ATen/ATen.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <iostream>

int main(int argc, char** argv) {
  c10::InferenceMode mode;
  torch::inductor::AOTIModelPackageLoader model(argv[1]);
  std::vector<at::Tensor> inputs = {at::randn({4, 16}), at::ones({4, argc > 2 ? 2LL : 1LL})};
  std::cout << model.run(inputs)[0].sum().item<float>() << std::endl;
}
