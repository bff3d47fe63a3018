import os

os.environ["KERAS_BACKEND"] = "torch"
import cirron as ci

ci.profile()
import keras, torch
from torch.utils.data import DataLoader, TensorDataset

i = keras.Input((4,))
x = keras.layers.Dense(8)(i)
m = keras.Model(i, keras.layers.Dense(1)(x))
o = torch.optim.SGD(m.parameters(), lr=0.1)
dl = DataLoader(TensorDataset(torch.randn(32, 4)), 8)
for e in range(2):
    for (x,) in dl:
        m.zero_grad()
        (m(x) ** 2).mean().backward()
        o.step()
