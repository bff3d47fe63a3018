import cirron as ci

ci.profile()
import torch
from torch.utils.data import DataLoader, TensorDataset

N = int(__import__("sys").argv[1])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(N))
        self.forward(torch.zeros(1, 4))  # shape inference, as YOLO computes its strides

    def forward(self, x):
        for l in self.l:
            x = l(x)
        return x


m = Net()
o = torch.optim.SGD(m.parameters(), lr=0.1)
for e in range(2):
    for (x,) in DataLoader(TensorDataset(torch.randn(32, 4)), 8):
        o.zero_grad()
        m(x).pow(2).mean().backward()
        o.step()
