import cirron as ci

ci.profile()
import torch, itertools
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class It(IterableDataset):
    def __iter__(self):
        w = get_worker_info()
        torch.manual_seed(w.id)
        for i in range(w.id, 80, w.num_workers):
            yield torch.randn(16)


class Net(torch.nn.Module):
    def __init__(s):
        super().__init__()
        s.a = torch.nn.Linear(16, 16)
        s.b = torch.nn.Linear(16, 1)

    def forward(s, x):
        return s.b(checkpoint(s.a, x, use_reentrant=False))


m = Net()
o = torch.optim.Adam(m.parameters())
sc = torch.amp.GradScaler("cpu", init_scale=1e38, growth_interval=5)
dl = DataLoader(It(), 8, num_workers=2, persistent_workers=True)
for e in range(3):
    for i, x in enumerate(dl):
        with torch.autocast("cpu", dtype=torch.float16):
            l = m(x).float().pow(2).mean() * 1e3
        sc.scale(l).backward()
        sc.step(o)
        sc.update()
        o.zero_grad()
print(l.item(), sc.get_scale())
