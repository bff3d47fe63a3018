import cirron as ci

ci.profile()
import torch, copy
from torch.utils.data import DataLoader, TensorDataset

q = torch.nn.Linear(4, 1)
target = copy.deepcopy(q)
o = torch.optim.SGD(q.parameters(), lr=0.1)  # only q is optimised
for e in range(2):
    for (x,) in DataLoader(TensorDataset(torch.randn(32, 4)), 8):
        with torch.no_grad():
            t = target(x)
        o.zero_grad()
        (q(x) - t).pow(2).mean().backward()
        o.step()
