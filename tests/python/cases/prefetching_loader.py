import cirron as ci

ci.profile()
import torch
from torch.utils.data import DataLoader, TensorDataset

m = torch.nn.Linear(4, 1)
o = torch.optim.SGD(m.parameters(), lr=0.1)
dl = DataLoader(TensorDataset(torch.randn(32, 4)), 8)


def prefetch(loader):  # as timm's PrefetchLoader, NVIDIA's data_prefetcher
    prev = None
    for b in loader:
        if prev is not None:
            yield prev
        prev = b
    yield prev


for e in range(2):
    for (x,) in prefetch(dl):
        o.zero_grad()
        m(x).pow(2).mean().backward()
        o.step()
