import cirron as ci

ci.profile()
import torch
from torch.utils.data import DataLoader, TensorDataset

m = torch.nn.Linear(4, 1)
o = torch.optim.SGD(m.parameters(), lr=0.1)
for e in range(2):
    for i, (x,) in enumerate(DataLoader(TensorDataset(torch.randn(32, 4)), 8)):
        o.zero_grad()
        m(x).pow(2).mean().backward()
        o.step()
        if e == 1 and i == 2:
            raise RuntimeError("boom")
