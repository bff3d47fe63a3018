import cirron as ci

ci.profile()
import torch
from torch.utils.data import DataLoader, TensorDataset

m = torch.nn.Linear(4, 1)
o = torch.optim.SGD(m.parameters(), lr=0.1)
tr = DataLoader(TensorDataset(torch.randn(32, 4)), 8)
va = DataLoader(TensorDataset(torch.randn(16, 4)), 8)
for e in range(2):
    for (x,) in tr:
        o.zero_grad()
        m(x).pow(2).mean().backward()
        o.step()
    with torch.no_grad():  # no m.eval(), as in pytorch/examples super_resolution
        for (x,) in va:
            m(x)
