"""A training loop without a framework, profiled: about two seconds, and one thing wrong with it.

Fits a line by gradient descent in plain Python. Every eighth batch the "data pipeline" stalls; the
printed tree shows where the time went, and the same is on disk for `sonde trace`.

    python examples/quickstart.py [--path .cirron]
"""

import argparse
import random
import time

import cirron as ci

EPOCHS, BATCHES, BATCH_SIZE = 4, 16, 64
STALL_EVERY, STALL_SECONDS = 8, 0.12


def samples(generator):
    """Points near y = 3x + 2."""
    for _ in range(BATCH_SIZE):
        x = generator.uniform(-1, 1)
        yield x, 3 * x + 2 + generator.gauss(0, 0.1)


def load(number, generator):
    """The input pipeline: quick, except when it is not."""
    with ci.scope("data_load"):
        time.sleep(STALL_SECONDS if number % STALL_EVERY == STALL_EVERY - 1 else 0.001)
        return list(samples(generator))


def gradients(batch, slope, offset):
    """Mean squared error and its two derivatives."""
    errors = [(slope * x + offset - y, x) for x, y in batch]
    count = len(batch)
    return (
        sum(error * error for error, _ in errors) / count,
        sum(2 * error * x for error, x in errors) / count,
        sum(2 * error for error, _ in errors) / count,
    )


def train():
    generator = random.Random(0)
    slope = offset = 0.0
    for epoch in ci.epochs(range(EPOCHS)):
        rate = 0.5 / (1 + epoch)
        loss = 0.0
        for number in ci.batches(range(BATCHES)):
            batch = load(number, generator)
            with ci.scope("forward_backward"):
                loss, by_slope, by_offset = gradients(batch, slope, offset)
                time.sleep(0.01)  # stands for the arithmetic of a real model
            with ci.scope("optimizer_step"):
                slope -= rate * by_slope
                offset -= rate * by_offset
            ci.mark("loss", loss)
        ci.mark("epoch_loss", loss, kind="summary")
        ci.mark("learning_rate", rate, kind="summary")
    return slope, offset


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", default=".cirron", help="output directory (default: .cirron)")
    path = parser.parse_args().path

    ci.profile(path=path)
    slope, offset = train()
    print(f"fitted y = {slope:.2f} x + {offset:.2f}\n")
    print("the last spans that closed:")
    ci.trace(last=10)
    ci.shutdown()

    spans = ci.trace(format="dict", name="data_load")["roots"]
    slow = [span for span in spans if span["wall_us"] > 100_000]
    print(f"\n{len(slow)} of {len(spans)} data_load spans took over 100 ms")
    print(f"everything is in {path}; read it with: sonde trace {path}")


if __name__ == "__main__":
    main()
