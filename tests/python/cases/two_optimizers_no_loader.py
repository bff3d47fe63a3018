import cirron as ci

ci.profile()
import torch

a = torch.nn.Linear(4, 4)
b = torch.nn.Linear(4, 1)
oa = torch.optim.SGD(a.parameters(), lr=0.1)
ob = torch.optim.SGD(b.parameters(), lr=0.1)
for i in range(50):  # one iteration = two optimizers, no loader (SAC, GAN on synthetic data)
    ob.zero_grad()
    b(a(torch.randn(8, 4)).detach()).pow(2).mean().backward()
    ob.step()
    oa.zero_grad()
    b(a(torch.randn(8, 4))).mean().backward()
    oa.step()
