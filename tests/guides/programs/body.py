import torch


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(16, 16))

    def forward(self, h):
        z = h @ self.w
        return torch.log(z - 100.0) + z


class Body(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(16, 16)
        self.head = Head()

    def forward(self, tokens, scale):
        return self.head(torch.relu(self.l(tokens)) * scale)
