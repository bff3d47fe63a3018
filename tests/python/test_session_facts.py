"""What the session says about the program: frameworks, device, precision, also if known late."""

import signal

import cirron as ci
import pytest
from child_process import run_python
from sonde_command import sonde
from spool_files import Spool

FACTS = ("framework", "device", "cuda_count", "mixed_precision")

TRAIN = """
    import os, signal, sys
    {before}
    import cirron as ci
    ci.profile(path=sys.argv[1], {arguments})
    import torch
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def step(scaler=None):
        loss = model(torch.randn(2, 4)).pow(2).mean()
        (loss if scaler is None else scaler.scale(loss)).backward()
        optimizer.step()
    {then}
"""


def facts_of(attrs):
    return {name: attrs[name] for name in FACTS}


def facts(tmp_path, then="step()", before="", arguments="", status=0):
    code = TRAIN.format(then=then, before=before, arguments=arguments)
    done = run_python(code, tmp_path / "out", check=False)
    assert done.returncode == status, done.stderr
    if status == -signal.SIGKILL:
        sonde("autopsy", tmp_path / "out")
    return facts_of(Spool(tmp_path / "out/spool").one("cirron.session")["attrs"])


def seen_by_torch():
    torch = pytest.importorskip("torch")
    count = torch.cuda.device_count()
    return {"device": "cuda" if count else "cpu", "cuda_count": count}


def test_they_are_always_there(workdir):
    run_python("import cirron as ci; ci.profile()")
    session = Spool(workdir / ".cirron/spool").one("cirron.session")
    assert facts_of(session["attrs"]) == {
        "framework": "",
        "device": "cpu",
        "cuda_count": 0,
        "mixed_precision": False,
    }


@pytest.mark.parametrize("before", ["", "import torch"], ids=["torch later", "torch before"])
def test_torch_that_is_used(tmp_path, before):
    expected = {"framework": "torch", "mixed_precision": False} | seen_by_torch()
    assert facts(tmp_path, before=before) == expected


@pytest.mark.parametrize(
    "use",
    [
        lambda torch: torch.nn.Linear(4, 1)(torch.ones(1, 4)),
        lambda torch: next(iter(torch.utils.data.DataLoader([1, 2]))),
        lambda torch: torch.optim.SGD([torch.nn.Parameter(torch.ones(1))]).step(),
    ],
    ids=["a model", "a loader", "an optimizer"],
)
def test_whatever_torch_is_used_for(spool_dir, use):
    torch = pytest.importorskip("torch")
    ci.profile()
    use(torch)
    ci.shutdown()
    assert Spool(spool_dir).one("cirron.session")["attrs"]["framework"] == "torch"


def test_a_framework_that_is_only_imported_is_not_used(tmp_path):
    assert facts(tmp_path, then="pass") == (
        {"framework": "", "mixed_precision": False} | seen_by_torch()
    )


def test_a_framework_without_its_hook_records_nothing(tmp_path):
    assert facts(tmp_path, arguments="frameworks=[]")["framework"] == ""


def test_they_are_known_of_a_run_that_is_killed(tmp_path):
    then = """
    with torch.autocast("cpu", dtype=torch.bfloat16):
        step()
    os.kill(os.getpid(), signal.SIGKILL)
    """
    found = facts(tmp_path, then=then, arguments="flush_interval=3600", status=-signal.SIGKILL)
    assert found == {"framework": "torch", "mixed_precision": True} | seen_by_torch()


def test_ctrl_c_at_the_first_use_of_torch_reaches_the_program(tmp_path):
    then = """
    from sonde import facts
    asked = facts._torch_gpus
    def interrupted(ask):
        facts._torch_gpus = asked
        signal.raise_signal(signal.SIGINT)
    facts._torch_gpus = interrupted
    try:
        step()
    except KeyboardInterrupt:
        assert ci.health()["swallowed_errors"] == {}
    else:
        raise AssertionError("the program did not get it")
    """
    expected = {"framework": "torch", "mixed_precision": False} | seen_by_torch()
    assert facts(tmp_path, then) == expected


def test_trace_shows_them_while_the_session_is_open(memory):
    torch = pytest.importorskip("torch")

    def now():
        (root,) = ci.trace(format="dict")["roots"]
        return facts_of(root["attrs"])

    assert now() == {"framework": "", "mixed_precision": False} | seen_by_torch()
    torch.nn.Linear(1, 1)(torch.ones(1))
    assert now()["framework"] == "torch"
    with torch.autocast("cpu"):
        pass
    assert now()["mixed_precision"] is True


# -- precision --


def train_step(torch, scaler=None):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.randn(2, 4)).pow(2).mean()
    (loss if scaler is None else scaler.scale(loss)).backward()
    optimizer.step()


def train_in_autocast(torch, enabled=True):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
        train_step(torch)


def train_in_autocast_later(torch):
    for enabled in (False, False, True):
        train_in_autocast(torch, enabled)


@pytest.mark.parametrize(
    ("train", "mixed"),
    [
        (train_step, False),
        (train_in_autocast, True),
        (lambda torch: train_in_autocast(torch, False), False),
        (train_in_autocast_later, True),
        (lambda torch: torch.autocast("cpu", dtype=torch.bfloat16)(train_step)(torch), True),
        (lambda torch: train_step(torch, torch.amp.GradScaler("cpu")), True),
        (lambda torch: train_step(torch, torch.amp.GradScaler("cpu", enabled=False)), False),
    ],
    ids=["none", "autocast", "switched off", "later", "decorator", "scaler", "scaler off"],
)
def test_mixed_precision(spool_dir, train, mixed):
    torch = pytest.importorskip("torch")
    ci.profile()
    train(torch)
    ci.shutdown()
    assert Spool(spool_dir).one("cirron.session")["attrs"]["mixed_precision"] is mixed


def test_profile_inside_of_autocast(tmp_path):
    before = "import torch; torch.autocast('cpu', dtype=torch.bfloat16).__enter__()"
    assert facts(tmp_path, before=before)["mixed_precision"] is True


def test_what_waits_for_autocast_takes_itself_away():
    torch = pytest.importorskip("torch")
    nesting, scale = torch.autocast_increment_nesting, torch.amp.GradScaler.scale
    ci.profile(output="none")
    assert torch.autocast_increment_nesting is not nesting
    with torch.autocast("cpu"):
        assert torch.autocast_increment_nesting is nesting
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for _ in range(1000):
        scaler.scale(torch.ones(1))
    assert torch.amp.GradScaler.scale is scale
    ci.shutdown()
    ci.profile(output="none")
    ci.shutdown()
    assert torch.autocast_increment_nesting is nesting
    assert torch.amp.GradScaler.scale is scale


def test_a_session_knows_nothing_of_the_one_before(spool_dir):
    torch = pytest.importorskip("torch")
    for used in (True, False):
        ci.profile()
        if used:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                torch.nn.Linear(1, 1)(torch.ones(1))
        ci.shutdown()
    first, second = (s["attrs"] for s in Spool(spool_dir).named("cirron.session"))
    assert (first["framework"], first["mixed_precision"]) == ("torch", True)
    assert (second["framework"], second["mixed_precision"]) == ("", False)


# -- what is built on torch, and what is not --


def test_lightning_and_its_exception(tmp_path):
    pytest.importorskip("lightning")
    code = """
        import sys
        import cirron as ci
        ci.profile(path=sys.argv[1])
        import lightning, torch
        class Net(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)
            def training_step(self, batch, index):
                if index == 2:
                    raise RuntimeError("boom")
                return self.layer(batch).sum()
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)
        trainer = lightning.Trainer(max_epochs=1, logger=False, enable_checkpointing=False,
                                    enable_progress_bar=False, accelerator="cpu")
        with ci.scope("around"):
            try:
                trainer.fit(Net(), torch.utils.data.DataLoader(torch.randn(8, 4), 2))
            except RuntimeError:
                pass
    """
    run_python(code, tmp_path / "out")
    spool = Spool(tmp_path / "out/spool")
    assert spool.one("cirron.session")["attrs"]["framework"] == "torch,lightning"
    raised = {
        (span["name"], span["index"]): span["attrs"].get("exception_message")
        for span in spool.spans
        if span["name"] in ("around", "epoch", "step")
    }
    assert raised == {
        ("around", None): None,
        ("epoch", 0): "boom",
        ("step", 0): None,
        ("step", 1): None,
        ("step", 2): "boom",
    }


def test_keras_and_its_exception(tmp_path):
    pytest.importorskip("keras")
    code = """
        import sys
        import cirron as ci
        ci.profile(path=sys.argv[1])
        import keras, numpy
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        class Fail(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                if epoch == 1:
                    raise RuntimeError("boom")
        try:
            model.fit(numpy.ones((4, 4)), numpy.ones(4), epochs=3, verbose=0, callbacks=[Fail()])
        except RuntimeError:
            pass
    """
    run_python(code, tmp_path / "out", env={"KERAS_BACKEND": "tensorflow"})
    spool = Spool(tmp_path / "out/spool")
    attrs = spool.one("cirron.session")["attrs"]
    assert (attrs["framework"], attrs["mixed_precision"]) == ("tensorflow", True)
    raised = [span["attrs"].get("exception_message") for span in spool.named("epoch")]
    assert raised == [None, "boom"]


OWN_LOOPS = {
    "jax": """
        import jax, jax.numpy as jnp
        step = jax.jit(lambda w: w - 0.1 * jax.grad(lambda w: (w ** 2).sum())(w))
        weight = jnp.ones(4)
        for _ in range(4):
            weight = step(weight)
    """,
    "tensorflow": """
        import tensorflow as tf
        weight, optimizer = tf.Variable(1.0), tf.keras.optimizers.SGD()
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = weight * weight
            optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
    """,
}


@pytest.mark.parametrize("framework", OWN_LOOPS)
def test_a_loop_of_the_programs_own_names_its_framework_and_ends(tmp_path, framework):
    pytest.importorskip(framework)
    start = """
        import os, sys, time
        os.environ["JAX_PLATFORMS"] = "cpu"
        import cirron as ci
        ci.profile(path=sys.argv[1])
    """
    end = """
        time.sleep(0.05)
    """
    run_python(start + OWN_LOOPS[framework] + end, tmp_path / "out")
    spool = Spool(tmp_path / "out/spool")
    session, epoch = spool.one("cirron.session"), spool.one("epoch")
    assert session["attrs"]["framework"] == framework
    assert session["end_ns"] - epoch["end_ns"] >= 50_000_000
    assert "sonde.closed_by" not in epoch["attrs"]
