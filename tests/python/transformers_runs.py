"""Small runs of the transformers Trainer. Models are built here; nothing is downloaded."""

import torch
from small_net import Net, Rows
from transformers import Trainer, TrainingArguments


def arguments(tmp_path, **given):
    values = {
        "output_dir": str(tmp_path / "out"),
        "per_device_train_batch_size": 2,
        "per_device_eval_batch_size": 2,
        "num_train_epochs": 2,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
    }
    return TrainingArguments(**values | given)


def trainer(tmp_path, kind=Trainer, callbacks=None, rows=4, **given):
    return kind(
        model=Net(),
        args=arguments(tmp_path, **given),
        train_dataset=Rows(rows),
        eval_dataset=Rows(4),
        callbacks=callbacks,
    )


def marks(span, kind="point"):
    found = {}
    for mark in span["marks"]:
        if mark["kind"] == kind:
            assert mark["name"] not in found, f"{mark['name']} twice on {span['name']}"
            found[mark["name"]] = mark["value"]
    return found


def plain_loop(before_step=lambda: None):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(torch.ones(4, 4), batch_size=2):
        model(x).sum().backward()
        before_step()
        optimizer.step()
