import cirron as ci

ci.profile()
import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    m = torch.nn.Linear(4, 1)
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    dl = DataLoader(
        TensorDataset(torch.randn(32, 4)), 8, num_workers=2, multiprocessing_context="spawn"
    )
    for e in range(3):
        for (x,) in dl:
            o.zero_grad()
            m(x).pow(2).mean().backward()
            o.step()


if __name__ == "__main__":
    main()
