"""The models of a program, and what it does with a batch, as Python."""

from loop_programs import BY_HAND, SEVERAL

SECOND_MODEL = {"gan": 4, "two_models": 1, "two_opts": 1, "alternate": 1}  # its outputs


def share(w, form, n, other):
    """The models and optimizers of part n are those of another; `form` None: its model alone."""
    names = ["m"]
    if form is not None:
        names += ["o"] if form not in BY_HAND else []
        names += ["b"] if form in SECOND_MODEL else []
        names += ["p"] if form in (*SEVERAL, "alternate") else []
        names += ["t"] if form in ("teacher", "frozen_teacher") else []
        names += ["scaler"] if form == "scaler" else []
    w(*(f"{name}{n} = {name}{other}" for name in names))


def set_up(w, form, n, in_eval):
    inner = 1 if form != "two_models" else 4
    w(f"m{n} = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, {inner}))")
    if form in SECOND_MODEL:
        w(f"b{n} = nn.Linear(4, {SECOND_MODEL[form]})")
    if form in ("teacher", "frozen_teacher"):
        w(f"t{n} = nn.Linear(4, 1)")
    if form == "frozen_teacher":
        w(f"t{n}.requires_grad_(False)")
    parameters = {
        "two_models": f"[*m{n}.parameters(), *b{n}.parameters()]",
        "two_opts_one_model": f"m{n}[0].parameters()",
    }.get(form, f"m{n}.parameters()")
    if form == "lbfgs":
        w(f"o{n} = torch.optim.LBFGS({parameters}, max_iter=2)")
    elif form not in BY_HAND:
        w(f"o{n} = torch.optim.SGD({parameters}, lr=0.01)")
    second = f"m{n}[2]" if form == "two_opts_one_model" else f"b{n}"
    if form in (*SEVERAL, "alternate"):
        w(f"p{n} = torch.optim.Adam({second}.parameters())")
    if form == "scaler":
        w(f'scaler{n} = torch.amp.GradScaler("cpu", init_scale=2.0)')
    if in_eval:
        w(f"m{n}.eval()")


# -- one update --


def forward(w, text, count=1, role=None):
    w(*[f'T.op("forward"{"" if role is None else f", role={role}"})'] * count, text)


def backward(w, text):
    w('T.op("backward")', text)


def write_update(w, update, n, i, x, last="False", skip_update=None, loader=True):
    """x: the batch; i: number of the batch; last: whether it is the last of its pass."""
    if update.own_target:
        with w.block("with torch.no_grad():"):
            forward(w, f"m{n}({x})", role="'free'")
    if update.form in SPECIAL:
        SPECIAL[update.form](w, update, n, i, x)
    else:
        write_usual(w, update, n, i, x, last, skip_update, loader)
    if update.monitor:
        with w.block("with torch.no_grad():"):
            forward(w, f"m{n}({x})", role="'free'")
    if update.mark:
        w("T.mark()", 'ci.mark("loss", 0.5)')


def write_usual(w, update, n, i, x, last, skip_update, loader):
    if update.zero_first and update.accumulate == 1:
        w(f"o{n}.zero_grad()")
    with w.maybe(update.scope, 'with ci.scope("work"):'):
        write_loss(w, update.form, n, i, x, loader)
        if update.form == "grad":
            backward(w, f"grads = torch.autograd.grad(loss, list(m{n}.parameters()))")
            with w.block(f"for p, g in zip(m{n}.parameters(), grads):"):
                w("p.grad = g")
        else:
            backward(w, "loss.backward()")
    if skip_update:
        skip_update()
    condition = f"({i} + 1) % {update.accumulate} == 0"
    if update.flush_rest:
        condition += f" or {last}"
    with w.maybe(update.accumulate > 1, f"if {condition}:"):
        w("T.update()", f"o{n}.step()", f"T.weights(m{n})")
        if not update.zero_first or update.accumulate > 1:
            w(f"o{n}.zero_grad()")


def write_loss(w, form, n, i, x, loader):
    if form == "siamese":
        forward(w, f"loss = (m{n}({x}) - m{n}({x} + 1)).pow(2).mean()", 2)
    elif form == "two_models":
        forward(w, f"loss = b{n}(m{n}({x})).pow(2).mean()", 2)
    elif form in ("teacher", "frozen_teacher"):
        # Without a loader, nothing is known about the first iteration when the teacher is called.
        role = None if loader else f"(None if {i} else 'free')"
        with w.maybe(form == "teacher", "with torch.no_grad():"):
            forward(w, f"wanted = t{n}({x})", role=role)
        forward(w, f"loss = (m{n}({x}) - wanted).pow(2).mean()")
    elif form == "bare":
        w(f"loss = ({x} @ m{n}[0].weight).pow(2).mean()")
    else:
        forward(w, f"loss = m{n}({x}).pow(2).mean()")


def write_two_opts(w, update, n, i, x):
    for model, optimizer in (("m", "o"), ("b", "p")):
        w(f"{optimizer}{n}.zero_grad()")
        forward(w, f"loss = {model}{n}({x}).pow(2).mean()")
        backward(w, "loss.backward()")
        w(f'T.update(lead="{optimizer}")', f"{optimizer}{n}.step()", f"T.weights(m{n})")


def write_alternate(w, update, n, i, x):
    for parity, model, optimizer in ((0, "m", "o"), (1, "b", "p")):
        with w.block(f"if {i} % 2 == {parity}:"):
            w(f"{optimizer}{n}.zero_grad()")
            forward(w, f"loss = {model}{n}({x}).pow(2).mean()")
            backward(w, "loss.backward()")
            w(f'T.update(lead="{optimizer}")', f"{optimizer}{n}.step()")
            if model == "m":
                w(f"T.weights(m{n})")


def write_two_opts_one_model(w, update, n, i, x):
    forward(w, f"loss = m{n}({x}).pow(2).mean()")
    backward(w, "loss.backward()")
    for optimizer in ("o", "p"):
        w(f'T.update(lead="{optimizer}")', f"{optimizer}{n}.step()", f"T.weights(m{n})")
    w(f"m{n}.zero_grad()")


def write_gan(w, update, n, i, x):
    with w.maybe(update.critic_steps > 1, f"for _ in range({update.critic_steps}):"):
        w(f"o{n}.zero_grad()")
        fake = f"m{n}(b{n}(torch.randn(2, 4)).detach())"
        forward(w, f"loss = {fake}.mean() - m{n}({x}).mean()", 3)
        backward(w, "loss.backward()")
        w('T.update(lead="o")', f"o{n}.step()", f"T.weights(m{n})")
    with w.maybe(update.generator_every > 1, f"if {i} % {update.generator_every} == 0:"):
        w(f"p{n}.zero_grad()")
        forward(w, f"loss = -m{n}(b{n}(torch.randn(2, 4))).mean()", 2)
        backward(w, "loss.backward()")
        w('T.update(lead="p")', f"p{n}.step()", f"T.weights(m{n})")


def write_lbfgs(w, update, n, i, x):
    with w.block("def closure():"):
        w(f"o{n}.zero_grad()")
        forward(w, f"loss = m{n}({x}).pow(2).mean()")
        backward(w, "loss.backward()")
        w("return loss")
    w("T.update()", f"o{n}.step(closure)", f"T.weights(m{n})")


def write_scaler(w, update, n, i, x):
    skips = f"{i} % 3 == {update.critic_steps - 1}"
    w(f"o{n}.zero_grad()")
    with w.maybe(update.scope, 'with ci.scope("work"):'):
        forward(w, f'loss = m{n}({x}).pow(2).mean() * (float("inf") if {skips} else 1.0)')
        backward(w, f"scaler{n}.scale(loss).backward()")
    w(f"T.update(skip={skips})", f"scaler{n}.step(o{n})", f"scaler{n}.update()")
    w(f"T.weights(m{n})")


def write_hand(w, update, n, i, x):
    forward(w, f"loss = m{n}({x}).pow(2).mean()")
    if update.form == "hand":
        backward(w, "loss.backward()")
    else:
        backward(w, f"grads = torch.autograd.grad(loss, list(m{n}.parameters()))")
    with w.block("with torch.no_grad():"):
        if update.form == "hand":
            with w.block(f"for p in m{n}.parameters():"):
                w("p -= 0.01 * p.grad", "p.grad = None")
        else:
            with w.block(f"for p, g in zip(m{n}.parameters(), grads):"):
                w("p -= 0.01 * g")
    w(f"T.by_hand(m{n})")


SPECIAL = {
    "two_opts": write_two_opts,
    "two_opts_one_model": write_two_opts_one_model,
    "gan": write_gan,
    "alternate": write_alternate,
    "lbfgs": write_lbfgs,
    "scaler": write_scaler,
    "hand": write_hand,
    "hand_grad": write_hand,
}
