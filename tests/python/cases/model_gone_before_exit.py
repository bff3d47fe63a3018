import cirron as ci

ci.profile()
import torch


def main():
    m = torch.nn.Linear(4, 1)
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    for i in range(50):
        o.zero_grad()
        m(torch.randn(8, 4)).pow(2).mean().backward()
        o.step()


main()
