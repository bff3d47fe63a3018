"""Runs of Keras that fail, repeated sessions, and other tools that replace the same methods."""

import contextlib
import logging

import cirron as ci
from keras_child import (
    BACKEND,
    ORIGINALS,
    TRAINER,
    Callback,
    X,
    Y,
    fit,
    keras,
    make_model,
    patched,
    run,
    tree,
)
from trees import spans


@run
def failures():
    """Fits that end with an exception, raised in many places; then one that does not."""

    def fail(error):
        def action(callback, number, logs):
            if number in (1, None):
                raise error("deliberate")

        return action

    raised = []
    for event, error in (
        ("on_train_begin", RuntimeError),
        ("on_train_batch_begin", RuntimeError),
        ("on_train_batch_end", RuntimeError),
        ("on_test_begin", RuntimeError),
        ("on_epoch_end", RuntimeError),
        ("on_train_batch_begin", KeyboardInterrupt),
    ):
        try:
            fit(
                epochs=2,
                validation_data=(X, Y),
                callbacks=[Callback(**{event: fail(error)})],
            )
        except BaseException as caught:
            raised.append(type(caught).__name__)
    try:
        keras.Sequential().fit(X, Y)
    except Exception as caught:
        raised.append(type(caught).__name__)
    failed = tree()
    fit()
    return {"raised": raised, "failed": failed, "all": tree()}


@run
def failing_evaluate_and_predict():
    def fail(callback, number, logs):
        raise RuntimeError("deliberate")

    model = make_model()
    raised = 0
    for call, data, event in (
        (model.evaluate, (X, Y), "on_test_batch_begin"),
        (model.predict, (X,), "on_predict_end"),
    ):
        try:
            call(*data, verbose=0, callbacks=[Callback(**{event: fail})])
        except RuntimeError:
            raised += 1
    fit(model)
    return [raised, tree()]


@run
def another_patcher():
    """Another tool replaces the same methods before or after us and restores them first or last."""
    ci.shutdown()
    seen = []

    def patch(when):
        originals = {name: vars(TRAINER)[name] for name in ("fit", "evaluate")}
        for name, original in originals.items():

            def theirs(self, *args, original=original, **kwargs):
                seen.append(when)
                return original(self, *args, **kwargs)

            setattr(TRAINER, name, theirs)
        return originals

    def unpatch(originals):
        for name, original in originals.items():
            setattr(TRAINER, name, original)

    def work():
        model = make_model()
        fit(model)
        model.evaluate(X, Y, verbose=0)
        return tree()

    results = {}
    originals = patch("before")
    theirs = vars(TRAINER)["fit"]
    ci.profile(output="none", flush_interval=3600)
    results["before"] = work()
    ci.shutdown()
    results["before_restored"] = vars(TRAINER)["fit"] is theirs
    unpatch(originals)

    ci.profile(output="none", flush_interval=3600)
    originals = patch("after")
    results["after"] = work()
    ci.shutdown()
    ci.profile(output="none", flush_interval=3600, frameworks=[])
    results["asleep"] = work()  # through the other tool's methods and ours
    unpatch(originals)
    results["asleep_alone"] = work()
    ci.shutdown()
    unpatch({name: ORIGINALS[TRAINER, name] for name in originals})
    return results | {"seen": seen}


@run
def restored():
    """Installed and removed, three times."""
    results = []
    for names in (["tensorflow"], ["keras"], None):
        ci.shutdown()
        results.append(patched())
        now = ci.profile(output="none", flush_interval=3600, frameworks=names)
        fit(epochs=1)
        results.append([now.installed_hooks if names else None, tree()])
    ci.shutdown()
    return [*results, patched()]


@run
def shutdown_in_the_middle():
    fit(epochs=2, callbacks=[Callback(on_train_batch_end=lambda s, n, logs: ci.shutdown())])
    ci.profile(output="none", flush_interval=3600)
    fit()
    return tree()


@run
def profile_in_the_middle():
    ci.shutdown()
    start = Callback(
        on_train_batch_end=lambda s, n, logs: ci.profile(output="none", flush_interval=3600)
    )
    fit(epochs=2, callbacks=[start])
    fit()
    return tree()


@run
def hook_that_fails():
    """Our hook fails, in any place: one warning, training goes on, nothing stays open."""
    from sonde import _core

    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append([record.name, record.levelname])
    logging.getLogger("cirron.hooks.tensorflow").addHandler(handler)
    results = {}
    for group, name in (
        (_core.scopes, "mark"),
        (_core.scopes, "is_level_open"),
        (_core, "scope"),
        (_core.loops, "begin_announced"),
    ):
        ci.shutdown()
        ci.profile(output="none", flush_interval=3600)
        messages.clear()
        original = getattr(group, name)

        def broken(*args):
            raise RuntimeError("deliberate")

        setattr(group, name, broken)
        try:
            epochs = [fit(batch_size=6, validation_data=(X, Y)).epoch for _ in range(2)]
        finally:
            setattr(group, name, original)
        left_open = [span for span in spans("epoch") + spans("batch") if span["end_ns"] is None]
        results[name] = {
            "epochs": [len(each) for each in epochs],
            "messages": list(messages),
            "open": len(left_open),
        }
    return results


@run
def exported_callback():
    ci.shutdown()
    handle = ci.profile(output="none", flush_interval=3600)
    (hook,) = [hook for hook in handle.hook_handles if hook.name == "tensorflow"]
    return issubclass(hook.CirronKerasCallback, keras.callbacks.Callback)


@run
def torch_loop_after_a_failure():
    """Nothing stays claimed: torch's own hook opens epochs and steps again."""
    if BACKEND != "torch":
        return None
    import torch

    def fail(callback, number, logs):
        raise RuntimeError("deliberate")

    with contextlib.suppress(RuntimeError):
        fit(callbacks=[Callback(on_train_batch_end=fail)])
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y))
    for x, y in torch.utils.data.DataLoader(data, batch_size=3):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return tree()


@run
def compiled_by_torch():
    """Whether the optimizer is replaced during a fit that is compiled, and one that is not."""
    if BACKEND != "torch":
        return None
    import torch

    seen = []
    look = Callback(on_train_batch_end=lambda self, number, logs: seen.append("apply" in patched()))
    torch_compile = torch.compile
    torch.compile = lambda function, **_: function
    try:
        for compiled in (True, False, True):
            fit(make_model(jit_compile=compiled), callbacks=[look], batch_size=6)
    finally:
        torch.compile = torch_compile
    return {"replaced": seen, "tree": tree(whole=True)}
