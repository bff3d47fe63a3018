import cirron as ci

ci.profile()
import torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
fully_shard(m)
o = torch.optim.SGD(m.parameters(), lr=0.1)
for i in range(10):
    o.zero_grad()
    m(torch.randn(4, 8)).pow(2).mean().backward()
    o.step()
dist.destroy_process_group()
