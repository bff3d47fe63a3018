"""Writes a Program of loop_programs.py as Python."""

from loop_programs import (
    BY_HAND,
    CYCLED_SHAPES,
    SEVERAL,
    WITHOUT_LOADER,
    Look,
    Nested,
    Rollouts,
    Training,
)
from loop_updates import forward, set_up, share, write_update
from loop_writer import Writer, is_note


def source(program):
    """The program as it is run."""
    w = Writer()
    set_up_all(w, program)
    for number in range(len(program.parts)):
        with w.maybe(program.around, f'with ci.scope("part", index={number}):'):
            write_part(w, program.parts, number)
    return "\n".join(w.lines) + "\n"


def set_up_all(w, program):
    """Models and optimizers: one set for each part or, if shared, for each form. Looks use those
    of the next loop, otherwise of the last."""
    loops = [n for n, part in enumerate(program.parts) if not isinstance(part, Look)]
    first = {}
    for n in loops:
        form = program.parts[n].update.form
        if program.shared and form in first:
            share(w, form, n, first[form])
        else:
            set_up(w, form, n, program.in_eval)
        first.setdefault(form, n)
    for n in range(len(program.parts)):
        if not loops:
            set_up(w, "plain", n, program.in_eval)
        elif n not in loops:
            share(w, None, n, min((k for k in loops if k > n), default=loops[-1]))


def readable(text):
    """The program without what it says about itself."""
    return "\n".join(line for line in text.splitlines() if not is_note(line))


# -- evaluation --


def write_val(w, val, n, place):
    own_pass = val.source in ("full", "few")
    hint = f"m{n}.training and not T.in_eval" if val.calls_eval else False
    w(f'T.val("{place}", {own_pass}, {val.grad != "on"}, hint={hint})')
    if val.calls_eval:
        w(f"m{n}.eval()")
    guard = {"off": "no_grad", "inference": "inference_mode"}.get(val.grad)
    with w.maybe(guard, f"with torch.{guard}():"):
        write_looks(w, val, n)
    if val.calls_eval and val.restores:
        w(f"m{n}.train()")
    w("T.end_val()")


def write_looks(w, val, n):
    if val.source == "full":
        with w.block(f"for (v,) in tensors({val.batches}):"):
            w("T.val_batch()")
            forward(w, f"m{n}(v)")
    elif val.source == "few":
        with w.block(f"for k, (v,) in enumerate(held{n}):"):
            w("T.val_batch()")
            forward(w, f"m{n}(v)")
            with w.block(f"if k + 1 == {val.batches}:"):
                w("break")
    else:
        kept = val.source == "kept"
        with w.block(f"for _ in range({val.batches}):"):
            if kept:
                w(f"(v,) = next(kept{n})", "T.val_batch()")
            forward(w, f"m{n}(v)" if kept else f"m{n}(torch.randn(2, 4))")


def prepare_vals(w, n, *vals):
    sources = {val.source for val in vals if val is not None}
    if "few" in sources:
        w(f"held{n} = tensors(4)")
    if "kept" in sources:
        w(f"kept{n} = cycle(tensors(3))")


# -- loops --


def write_part(w, parts, n):
    part = parts[n]
    if isinstance(part, Training):
        write_training(w, part, n)
    elif isinstance(part, Nested):
        write_nested(w, part, n)
    elif isinstance(part, Rollouts):
        write_rollouts(w, part, n)
    elif isinstance(part, Look):
        prepare_vals(w, n, part.val)
        before = [each for each in parts[:n] if not isinstance(each, Look)]
        loose = bool(before) and isinstance(before[-1], WITHOUT_LOADER)
        write_val(w, part.val, n, "in" if loose else "between")
    else:
        write_iterations(w, part, n)


def write_training(w, part, n):
    prepare_vals(w, n, part.mid and part.mid.val, part.after)
    w(f"train{n} = {part.loader}({part.batches})")
    kind = "hand_loader" if part.update.form in BY_HAND else "loader"
    w(f'T.section("{kind}", scoped={part.update.scope})')
    if part.shape in ("zip", "second"):
        w(f"extra{n} = tensors({max(1, part.batches - 1)})")
    if part.shape == "second":
        w(f"second{n} = iter(extra{n})")
    write_peek(w, part, n)
    if part.shape in CYCLED_SHAPES:
        write_cycled(w, part, n)
    else:
        write_epochs(w, part, n)
    for name, used in (
        (f"look{n}", part.peek == "kept"),
        (f"second{n}", part.shape == "second"),
        ("it", part.shape == "while"),
    ):
        if used:
            w(f"del {name}")


def write_peek(w, part, n):
    if part.peek == "before":
        w(f"next(iter(train{n}))", "T.peek()")
    elif part.peek == "kept":
        w(f"look{n} = iter(train{n})", f"next(look{n})", "T.peek()")
    elif part.peek == "forward":
        w(f"(v,) = next(iter(train{n}))", "T.peek()")
        forward(w, f"m{n}(v)", role="'free'")


def write_epochs(w, part, n):
    cut = part.cut
    how = cut.how if cut else None
    if how == "return":
        with w.block(f"def run_epoch{n}(e):"):
            if part.shape == "second":
                w(f"global second{n}")
            write_pass(w, part, n)
    with w.block(f"for e in range({part.epochs}):"):
        w("T.epoch()")
        if how == "return":
            w(f"run_epoch{n}(e)")
        elif how == "raise":
            with w.block("try:"):
                write_pass(w, part, n)
            with w.block("except ValueError:"):
                w("pass")
        else:
            write_pass(w, part, n)
        if part.after:
            # After a break the iterator of `while` is still there, and batches that were fetched
            # ahead may still be to come.
            alive = (part.shape == "while" or "ahead" in part.shape) and cut is not None
            alive |= part.shape == "fresh" and part.peek == "kept"
            write_val(w, part.after, n, "in" if alive else "between")


def write_pass(w, part, n):
    if part.shape == "while":
        w(f"it = iter(train{n})", "i = -1")
        with w.block("while True:"):
            with w.block("try:"):
                w("(x,) = next(it)")
            with w.block("except StopIteration:"):
                w("break")
            w("i += 1")
            write_body(w, part, n)
        return
    items = {
        "bar": f"bar(train{n})",
        "ahead1": f"ahead(train{n}, 1)",
        "ahead2": f"ahead(train{n}, 2)",
        "zip": f"zip(train{n}, extra{n})",
        "fresh": f"{part.loader}({part.batches})",
    }.get(part.shape, f"train{n}")
    names = "((x,), (y,))" if part.shape == "zip" else "(x,)"
    with w.block(f"for i, {names} in enumerate({items}):"):
        if part.shape == "second":
            write_second_fetch(w, n)
        write_body(w, part, n)
    if part.shape == "zip":
        w("T.dropped()")  # the longer of the two is fetched from once more


def write_second_fetch(w, n):
    with w.block("try:"):
        w(f"(y,) = next(second{n})")
    with w.block("except StopIteration:"):
        w(f"second{n} = iter(extra{n})", f"(y,) = next(second{n})")


def write_cut(w, cut, place):
    if cut and cut.place == place:
        with w.block(f"if e == {cut.epoch} and i == {cut.batch}:"):
            if place == "fetch":
                w("T.dropped()")
            w({"break": "break", "return": "return", "raise": "raise ValueError"}[cut.how])


def write_body(w, part, n):
    """What is done with the batch `x`, the `i`-th of its pass."""
    if part.skip:
        with w.block(f"if e == 0 and i < {part.skip}:"):
            w("T.passed_over()", "continue")
    write_cut(w, part.cut, "fetch")
    w(f"T.batch(ahead={'ahead' in part.shape})")
    batches = max(1, part.batches - 1) if part.shape == "zip" else part.batches
    mid = part.mid
    at = f"if i % {part.batches} == {mid.at}:" if mid else ""
    if mid and mid.before:
        with w.block(at):
            write_val(w, mid.val, n, "in")
    last = f"i % {batches} == {batches - 1}"
    write_update(w, part.update, n, "i", "x", last, lambda: write_cut(w, part.cut, "backward"))
    if mid and not mid.before:
        with w.block(at):
            write_val(w, mid.val, n, "in")
    if part.peek == "mid":
        with w.block("if i == 1:"):
            w(f"next(iter(train{n}))", "T.peek()")
    write_cut(w, part.cut, "step")


def write_cycled(w, part, n):
    limit = part.batches * part.epochs - (part.batches // 2)
    if part.shape == "until_limit":
        w("i = -1")
        with w.block(f"while i + 1 < {limit}:"):
            w("T.epoch()")
            with w.block(f"for (x,) in train{n}:"):
                w("i += 1")
                write_body(w, part, n)
                with w.block(f"if i + 1 == {limit}:"):
                    w("break")
        return
    feed = f"cycle(train{n})"
    w(f"feed{n} = ahead({feed}, 1)" if part.shape == "cycle_ahead" else f"feed{n} = {feed}")
    with w.block(f"for i in range({limit}):"):
        w(f"(x,) = next(feed{n})")
        with w.block(f"if i % {part.batches} == 0:"):
            w("T.epoch()")
        write_body(w, part, n)
    w(f"del feed{n}")


def write_iterations(w, part, n):
    update = part.update
    prepare_vals(w, n, part.mid and part.mid.val)
    x = "torch.randn(2, 4)"
    if part.one_batch:
        w("(x,) = next(iter(tensors(3)))", "T.peek()")
        x = "x"
    w(f'T.section("{kind_without_loader(part)}")')
    with w.block(f"for i in range({part.count}):"):
        w(f"T.iteration({update.accumulate})")
        write_update(w, update, n, "i", x, loader=False)
        if part.mid:
            with w.block(f"if i == {part.mid.at}:"):
                write_val(w, part.mid.val, n, "in")


def kind_without_loader(part):
    if part.update.form == "gan" and part.update.critic_steps + part.update.generator_every > 2:
        return "uneven"
    if part.update.form in SEVERAL:
        return "several"
    if part.update.scope:
        return "scoped"
    return "left_over" if part.count % part.update.accumulate else "plain"


def write_rollouts(w, part, n):
    w(f'T.section("{"several" if part.update.form in SEVERAL else "plain"}")')
    with w.block(f"for r in range({part.count}):"):
        w(f"T.collect({not part.gradients})")
        play = w.block(f"for _ in range({part.length}):")
        with w.maybe(not part.gradients, "with torch.no_grad():"), play:
            forward(w, f"m{n}(torch.randn(2, 4))")
        w("T.end_collect()")
        with w.block(f"for u in range({part.updates}):"):
            w("T.iteration()")
            write_update(w, part.update, n, "u", "torch.randn(2, 4)", loader=False)


def write_nested(w, part, n):
    w(f"outer{n} = tensors({part.outer})", f"train{n} = tensors({part.inner})")
    w('T.section("nested")')
    with w.block(f"for (task,) in outer{n}:"):
        w("T.peek()", "T.epoch()")
        with w.block(f"for (x,) in train{n}:"):
            w("T.batch()")
            write_update(w, part.update, n, "0", "x")
