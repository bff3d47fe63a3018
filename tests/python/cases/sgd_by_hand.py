import cirron as ci

ci.profile()
import torch

m = torch.nn.Linear(4, 1)
x = torch.randn(32, 4)
for i in range(100):  # plain SGD by hand, no torch.optim
    loss = m(x).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        for p in m.parameters():
            p -= 0.1 * p.grad
            p.grad = None
