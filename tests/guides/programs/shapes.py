import torch


@torch.compile
def loss(x, n):
    y = torch.sin(x) * n
    print("step", n)
    return (y + x.cos()).sum()


for n in range(4):
    loss(torch.randn(4 + n, 3), n)
