"""Runs of Keras as users write them; test_hooks_tensorflow.py checks what they leave."""

import threading
import time

import cirron as ci
import numpy as np
from keras_child import BACKEND, Callback, X, Y, fit, keras, make_model, marks, run, tree
from spool_files import Spool
from trees import spans


@run
def tree_of_a_fit():
    history = fit(make_model(run_eagerly=False), epochs=2, validation_data=(X, Y)).history
    batches, epochs = spans("batch"), spans("epoch")
    return {
        "tree": tree(),
        "whole": tree(whole=True),
        "history": history,
        "epoch_marks": [marks(span) for span in epochs],
        "batch_marks": [marks(span) for span in batches],
        "validation_marks": [marks(span) for span in spans("validation")],
    }


@run
def loader_of_torch():
    """With TensorFlow, threads of tf.data iterate it."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(torch.tensor(X), torch.tensor(Y)), batch_size=2)
    model = make_model()
    model.fit(loader, epochs=3, verbose=0)
    model.evaluate(loader, verbose=0)
    trace = tree()
    return {
        "steps": [len(span["children"]) for span in spans("epoch")],
        "rest": [name for name in ("epoch[3]", "step", "peek") if name in trace],
        "validations": len(spans("validation")),
    }


@run
def slow_optimizer():
    class Slow(keras.optimizers.SGD):
        def update_step(self, *args, **kwargs):
            time.sleep(0.01)
            return super().update_step(*args, **kwargs)

    model = make_model()
    model.compile(Slow(0.01), "mse", run_eagerly=True)
    fit(model)
    return [span["end_ns"] - span["start_ns"] for span in spans("optimizer_step")]


@run
def metrics_of_every_batch():
    """The recorded values are those that a callback on the training thread sees."""
    seen = []
    model = make_model(metrics=["mae"])
    fit(
        model,
        epochs=2,
        callbacks=[Callback(on_train_batch_end=lambda self, number, logs: seen.append(logs))],
    )
    return {"seen": seen, "marks": [marks(span) for span in spans("batch")]}


@run
def on_disk():
    """Marks that come after their span was written still name it."""
    ci.shutdown()
    ci.profile(output="spool", flush_interval=0.05)
    fit(epochs=3, batch_size=1)
    ci.shutdown()
    spool = Spool(".cirron/spool")
    return [[mark["name"] for mark in spool.marks_of(span)] for span in spool.named("batch")]


def with_timing():
    return [
        name
        for name in ("epoch", "batch", "validation", "predict")
        for span in spans(name)
        if span["attrs"].get("timing") == "dispatch"
    ]


@run
def time_of_the_device():
    model = make_model(run_eagerly=False)
    fit(model, epochs=2, validation_data=(X, Y), batch_size=1)
    timing = with_timing()
    epochs = [
        {"whole": span["gpu_ns"], "parts": [part["gpu_ns"] for part in span["children"]]}
        for span in spans("epoch")
    ]
    model.evaluate(X, Y, verbose=0)
    model.predict(X, verbose=0)
    after = [spans("validation")[-1]["gpu_ns"], spans("predict")[-1]["gpu_ns"]]
    ci.shutdown()
    ci.profile(output="none", flush_interval=3600)
    # Keras must call this callback from the main thread, so it waits for every batch.
    fit(model, callbacks=[Callback(on_train_batch_end=lambda self, number, logs: None)])
    return {"timing": timing, "epochs": epochs, "after": after, "waited_for": with_timing()}


@run
def work_for_the_device():
    """Batches that keep the device busy for much longer than handing them over takes."""
    if BACKEND != "jax":
        return None
    width = 1024
    layers = [keras.layers.Dense(width, activation="relu") for _ in range(3)]
    model = keras.Sequential([keras.layers.Input((width,)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones((6 * 256, width), "float32"), np.ones((6 * 256, 1), "float32")
    for _ in range(2):  # the first compiles
        fit(model, x, y, batch_size=256, validation_data=(x[:1], y[:1]))

    def times(name):
        found = [span for span in spans("epoch")[-1]["children"] if span["name"] == name]
        host = sum(span["end_ns"] - span["start_ns"] for span in found)
        return {"host": host, "device": sum(span["gpu_ns"] for span in found)}

    return {name: times(name) for name in ("batch", "validation")}


@run
def device_time_after_a_failure():
    def fail(callback, number, logs):
        if number == 1:
            raise RuntimeError("of the user")

    model, raised = make_model(run_eagerly=False), False
    try:
        fit(model, callbacks=[Callback(on_train_batch_begin=fail)], batch_size=1)
    except RuntimeError:
        raised = True
    fit(model)
    return {"raised": raised, "known": [span["gpu_ns"] is not None for span in spans("batch")[-2:]]}


@run
def numbering():
    model = make_model()
    fit(model, epochs=5, initial_epoch=3)
    return tree()


@run
def early_stop():
    def stop(callback, number, logs):
        callback.model.stop_training = True

    fit(epochs=5, callbacks=[Callback(on_train_batch_end=stop)], batch_size=1)
    return tree()


@run
def forms_of_callbacks():
    """Every way to pass callbacks: how often they were called, and whether they are unchanged."""
    results = {}
    for form in ("none", "single", "list", "tuple", "positional", "callback_list"):
        called = []
        one = Callback(on_epoch_end=lambda self, number, logs, called=called: called.append(number))
        given = {
            "none": None,
            "single": one,
            "tuple": (one,),
            "callback_list": keras.callbacks.CallbackList([one], add_history=True),
        }.get(form, [one])
        inner = given.callbacks if form == "callback_list" else given
        before = list(inner) if isinstance(inner, list | tuple) else inner
        model = make_model()
        if form == "callback_list":
            given.set_model(model)
        if form == "positional":
            model.fit(X, Y, 3, 1, 0, given)
        else:
            fit(model, callbacks=given)
        same = list(inner) == before if isinstance(inner, list | tuple) else inner is before
        if form == "callback_list":
            same = same and given.callbacks is inner
        results[form] = [len(called), same]
    return {"results": results, "tree": tree()}


@run
def callback_list_while_it_runs():
    seen = []
    given = [Callback(on_epoch_end=lambda self, number, logs: seen.append(len(given)))]
    fit(callbacks=given)
    return seen


@run
def wrong_arguments():
    try:
        make_model().fit(X, Y, colour="red")
    except TypeError as error:
        return {"error": "colour" in str(error), "tree": tree()}


@run
def two_models():
    first, second = make_model(), make_model()
    first.predict(X, verbose=0)  # leaves it in evaluation mode
    fit(second)
    fit(first)
    return tree()


@run
def subclasses():
    class Doubled(keras.Sequential):
        def fit(self, *args, **kwargs):
            return super().fit(*args, **kwargs)

        def evaluate(self, *args, **kwargs):
            return super().evaluate(*args, **kwargs)

    fit(make_model(Doubled), validation_data=(X, Y))
    inputs = keras.Input((4,))
    functional = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    functional.compile("sgd", "mse")
    fit(functional)
    return tree()


@run
def evaluate_and_predict():
    model = make_model()
    value = model.evaluate(X, Y, verbose=0)
    shape = model.predict(X, verbose=0).shape
    return {
        "tree": tree(),
        "whole": tree(whole=True),
        "value": value,
        "shape": list(shape),
        "marks": [marks(span) for span in spans("validation")],
    }


@run
def from_a_callback():
    """What a user's callback starts is inside the span in which it was called."""
    model, other = make_model(), make_model()

    def evaluate(callback, number, logs):
        model.evaluate(X, Y, verbose=0, batch_size=6)

    def train_the_other(callback, number, logs):
        fit(other)

    def predict(callback, number, logs):
        model.predict(X, verbose=0)

    event = "on_epoch_end" if BACKEND == "jax" else "on_train_batch_end"  # what Keras can do
    fit(model, callbacks=[Callback(**{event: evaluate})])
    fit(model, callbacks=[Callback(on_epoch_begin=predict)])
    fit(model, callbacks=[Callback(on_epoch_end=train_the_other)])
    return {"tree": tree(), "marks": [list(marks(span)) for span in spans("validation")]}


@run
def single_batches():
    model = make_model()
    values = [
        float(model.train_on_batch(X, Y)),
        float(model.test_on_batch(X, Y)),
        float(model.predict_on_batch(X)[0, 0]),
    ]
    fit(model)
    return {"values": len(values), "tree": tree()}


@run
def several_steps_per_execution():
    try:
        fit(make_model(steps_per_execution=2), batch_size=1)
    except ValueError:  # torch has no such thing
        return "refused " + tree()
    return tree()


@run
def data_of_unknown_length():
    def batches():
        for _ in range(2):
            yield X, Y

    model = make_model()
    model.fit(batches(), epochs=1, verbose=0)
    return {"tree": tree(), "marks": [len(span["marks"]) for span in spans("batch")]}


@run
def scopes_of_the_user():
    model = make_model()
    with ci.scope("experiment"):
        fit(model)
    for _ in ci.epochs(range(2)):
        fit(model)
    for _ in ci.batches(range(1)):
        fit(model)
    with ci.scope("validation"):
        model.evaluate(X, Y, verbose=0)
    return {
        "tree": tree(),
        "epoch": list(marks(spans("epoch")[1])),
        "validation": list(marks(spans("validation")[0])),
    }


@run
def scopes_in_callbacks():
    scope = ci.scope("mine")
    fit(
        callbacks=[
            Callback(
                on_epoch_begin=lambda self, number, logs: scope.__enter__(),
                on_epoch_end=lambda self, number, logs: scope.__exit__(None, None, None),
                on_train_batch_end=lambda self, number, logs: ci.mark("of_the_user", number),
            )
        ],
        batch_size=6,
    )
    return {"tree": tree(), "mark": "of_the_user" in marks(spans("batch")[0])}


@run
def scope_left_open_in_a_callback():
    scope = ci.scope("left")
    fit(callbacks=[Callback(on_epoch_begin=lambda self, number, logs: scope.__enter__())])
    with ci.scope("after"):
        pass
    return tree()


@run
def threads_of_keras():
    """The callbacks of a batch may run on another thread, long after it."""
    threads, in_time = [], []
    second_began = threading.Event()

    def begin(callback, number, logs):
        if number == 1:
            second_began.set()

    def end(callback, number, logs):
        threads.append(threading.get_ident())
        if number == 0 and BACKEND != "tensorflow":
            in_time.append(second_began.wait(20))

    note = Callback(async_safe=True, on_train_batch_begin=begin, on_train_batch_end=end)
    fit(make_model(run_eagerly=False), epochs=2, callbacks=[note], batch_size=1)
    return {
        "elsewhere": threading.get_ident() not in threads,
        "in_time": all(in_time),
        "tree": tree(),
        "marks": [list(marks(span)) for span in spans("batch")],
    }


@run
def reads_of_tensors():
    """How often Keras reads a tensor for its logs, with the hook and without."""
    from keras.src import backend

    counts = []
    original = backend.convert_to_numpy

    def counted(value, *args, **kwargs):
        counts[-1] += 1
        return original(value, *args, **kwargs)

    backend.convert_to_numpy = counted
    try:
        for hooked in (True, False):
            if not hooked:
                ci.shutdown()
            counts.append(0)
            fit(make_model(run_eagerly=False), epochs=2, validation_data=(X, Y))
    finally:
        backend.convert_to_numpy = original
    return counts


@run
def another_thread():
    thread = threading.Thread(target=fit)
    thread.start()
    thread.join()
    return tree()
