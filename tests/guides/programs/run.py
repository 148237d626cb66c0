import torch

model = torch._inductor.aoti_load_package("body.pt2")
print(model(torch.randn(4, 16), torch.ones(4, 2)).sum())
