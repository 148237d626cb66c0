import torch
from body import Body

inputs = (torch.randn(4, 16), torch.ones(4, 1))
program = torch.export.export(Body().eval(), inputs)
package = torch._inductor.aoti_compile_and_package(program, package_path="body.pt2")
print(torch._inductor.aoti_load_package(package)(*inputs).isnan().sum())
