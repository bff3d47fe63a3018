"""Writes Python, line by line. Lines that begin with `T.` tell the truth about the program."""

from contextlib import contextmanager

# What programs use. `T` is the Truth; it is told when a batch is put together.
PRELUDE = """
from collections import deque

import cirron as ci
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

def note(rows):
    T.fetch()
    return torch.utils.data.default_collate(rows)

class Rows(IterableDataset):
    def __init__(self, batches):
        self.batches = batches
    def __iter__(self):
        for _ in range(2 * self.batches):
            yield (torch.ones(4),)

class Own(DataLoader):
    def __iter__(self):
        for batch in super().__iter__():
            yield batch

def tensors(batches):
    return DataLoader(TensorDataset(torch.randn(2 * batches, 4)), 2, collate_fn=note)

def iterable(batches):
    return DataLoader(Rows(batches), 2, collate_fn=note)

def subclass(batches):
    return Own(TensorDataset(torch.randn(2 * batches, 4)), 2, collate_fn=note)

def bar(items):
    for item in items:
        yield item

def ahead(items, count):
    waiting = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > count:
            yield waiting.popleft()
    yield from waiting

def cycle(loader):
    while True:
        T.new_pass()
        for batch in loader:
            yield batch
"""


class Writer:
    def __init__(self):
        self.lines, self.depth = [], 0

    def __call__(self, *lines):
        self.lines += ["    " * self.depth + line for line in lines]

    @contextmanager
    def block(self, head):
        self(head)
        self.depth += 1
        mark = len(self.lines)
        yield
        if all(is_note(line) for line in self.lines[mark:]):
            self("pass")
        self.depth -= 1

    @contextmanager
    def maybe(self, wanted, head):
        if wanted:
            with self.block(head):
                yield
        else:
            yield


def is_note(line):
    return line.lstrip().startswith("T.")
