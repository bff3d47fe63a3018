import cirron as ci

ci.profile()
import torch
from torch.utils.data import DataLoader, TensorDataset

m = torch.nn.Linear(4, 1)
o = torch.optim.SGD(m.parameters(), lr=0.1)


def cycle(dl):
    while True:
        for b in dl:
            yield b


train = cycle(DataLoader(TensorDataset(torch.randn(80, 4)), 8))
val = cycle(DataLoader(TensorDataset(torch.randn(80, 4)), 8))
for i in range(40):  # 4 epochs of 10 steps, one validation batch every 5 steps
    m.train()
    o.zero_grad()
    m(next(train)[0]).pow(2).mean().backward()
    o.step()
    if i % 5 == 0:
        m.eval()
        with torch.no_grad():
            m(next(val)[0])
