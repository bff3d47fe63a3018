import cirron as ci

ci.profile()
import torch
from torch.utils.data import DataLoader, TensorDataset

m = torch.nn.Linear(4, 1)
o = torch.optim.SGD(m.parameters(), lr=0.1)
(x,) = next(iter(DataLoader(TensorDataset(torch.randn(32, 4)), 8)))  # overfit one batch
for i in range(2000):
    o.zero_grad()
    m(x).pow(2).mean().backward()
    o.step()
