"""Processes that torch starts are part of the run: loader workers, Hogwild, ranks of mp.spawn."""

import pytest
from run_programs import children, run_ids
from sonde_command import sonde

LOADER = """
    import sys
    import cirron as ci

    ci.profile(path=sys.argv[1])
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Numbers(Dataset):
        def __len__(self):
            return 32

        def __getitem__(self, index):
            if sys.argv[4] == "scope":
                with ci.scope("decode", index=index):
                    return torch.ones(4)
            return torch.ones(4)

    def main():
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(
            Numbers(), 8, num_workers=2, multiprocessing_context=sys.argv[2],
            persistent_workers=sys.argv[3] == "persistent",
        )
        for epoch in range(2):
            for batch in loader:
                optimizer.zero_grad()
                model(batch).mean().backward()
                optimizer.step()

    if __name__ == "__main__":
        main()
"""


@pytest.mark.parametrize("method, life", [("spawn", "short"), ("fork", "short")])
def test_loader_workers_that_record_nothing_leave_nothing(program, method, life):
    pytest.importorskip("torch")
    program.write(LOADER).run(method, life, "nothing")
    assert program.run_count() == 1
    assert program.journals() == []
    assert len(program.sessions()) == 1
    assert len(program.spool().named("epoch")) == 2


def test_loader_workers_with_scopes_of_their_own_are_part_of_the_run(program):
    pytest.importorskip("torch")
    program.write(LOADER).run("spawn", "persistent", "scope")
    assert program.run_count() == 1
    assert program.journals() == []
    spool = program.spool()
    assert len(children(program.sessions())) == 2
    assert sorted(span["index"] for span in spool.named("decode")) == sorted([*range(32)] * 2)
    assert {spool.path(span)[0] for span in spool.named("decode")} == {"cirron.session"}


def test_hogwild(program):
    """Workers that train one model in shared memory, as in the examples of PyTorch."""
    pytest.importorskip("torch")
    program.write(
        """
        import sys
        import cirron as ci

        ci.profile(path=sys.argv[1])
        import torch
        import torch.multiprocessing as mp
        from torch.utils.data import DataLoader, TensorDataset

        def train(seed, model):
            torch.manual_seed(seed)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = DataLoader(TensorDataset(torch.randn(16, 4)), 8)
            for epoch in range(2):
                for (batch,) in loader:
                    optimizer.zero_grad()
                    model(batch).pow(2).mean().backward()
                    optimizer.step()

        if __name__ == "__main__":
            mp.set_start_method("spawn")
            model = torch.nn.Linear(4, 1)
            model.share_memory()
            workers = [mp.Process(target=train, args=(seed, model)) for seed in range(2)]
            for worker in workers: worker.start()
            for worker in workers: worker.join()
            assert [worker.exitcode for worker in workers] == [0, 0]
        """
    ).run()
    assert program.run_count() == 1
    assert program.journals() == []
    workers = children(program.sessions())
    assert len(workers) == 2
    spool = program.spool()
    for worker in workers:
        epochs = [span for span in spool.named("epoch") if span["pid"] == worker["pid"]]
        assert [epoch["index"] for epoch in epochs] == [0, 1]
    shown = sonde("snapshots", program.out, "--weights", "--tensor", "weight").stdout
    assert all(str(worker["pid"]) in shown for worker in workers), shown


def test_ranks_of_torch_multiprocessing_spawn(program):
    """Each rank calls profile() itself; the program that starts them does not."""
    pytest.importorskip("torch")
    program.write(
        """
        import os, sys
        import cirron as ci
        import torch
        import torch.multiprocessing as mp

        def train(rank, world_size):
            os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world_size)}
            ci.profile(path=sys.argv[1])
            model = torch.nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for batch in torch.utils.data.DataLoader(torch.ones(16, 4), 8):
                optimizer.zero_grad()
                model(batch).mean().backward()
                optimizer.step()

        if __name__ == "__main__":
            mp.spawn(train, args=(2,), nprocs=2)
        """
    ).run()
    assert program.run_count() == 1
    assert program.journals() == []
    sessions = program.sessions()
    assert sorted(session["rank"] for session in sessions) == [0, 1]
    assert len(run_ids(sessions)) == 1
    assert {span["rank"] for span in program.spool().named("step")} == {0, 1}


def test_the_options_of_hooks_count_in_children_of_a_server_that_forks(program):
    """The server has called profile() for them; the hooks in place are those of the server."""
    program.write(
        """
        import sys
        import cirron as ci
        import torch

        ci.profile(path=OUT, flush_interval=3600, config={"torch": {"epoch_steps": 3}})

        def train():
            model = torch.nn.Linear(2, 1)
            optimizer = torch.optim.SGD(model.parameters())
            for _ in range(7):
                optimizer.zero_grad()
                model(torch.zeros(1, 2)).sum().backward()
                optimizer.step()
        """.replace("OUT", repr(str(program.out))),
        name="training.py",
    )
    program.write(
        """
        import multiprocessing

        if __name__ == "__main__":
            multiprocessing.set_forkserver_preload(["training"])
            context = multiprocessing.get_context("forkserver")
            import training
            child = context.Process(target=training.train)
            child.start()
            child.join()
            assert child.exitcode == 0
        """
    )
    program.run(env={"PYTHONPATH": str(program.folder)})
    assert [span["index"] for span in program.spool().named("epoch")] == [0, 1, 2]
