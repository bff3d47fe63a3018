"""Training programs as values, and how to draw one.

A Program is a list of parts (loops over loaders, loops without, rollouts, looks). loop_source.py
writes it as source text.
"""

from dataclasses import dataclass, fields, replace

from hypothesis import strategies as st

SINGLE = (
    "plain",
    "bare",  # parameters that are used without their module
    "siamese",
    "grad",
    "two_models",
    "lbfgs",
    "scaler",
    "teacher",
    "frozen_teacher",
)
SEVERAL = ("two_opts", "two_opts_one_model", "gan")
LOADER_ONLY = ("alternate",)  # one model with every other batch
BY_HAND = ("hand", "hand_grad")
ONE_BACKWARD = ("plain", "bare", "siamese", "teacher", "frozen_teacher")  # can accumulate, be cut

FOR_SHAPES = ("plain", "bar", "ahead1", "ahead2", "zip", "second", "fresh")
CYCLED_SHAPES = ("cycle", "cycle_ahead", "until_limit")


class Short:
    """Shows only what differs from the default."""

    def __repr__(self):
        shown = (
            f"{each.name}={getattr(self, each.name)!r}"
            for each in fields(self)
            if getattr(self, each.name) != each.default
        )
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class Update(Short):
    """What is done with a batch."""

    form: str
    accumulate: int = 1
    flush_rest: bool = False  # the last batch of a pass always steps
    zero_first: bool = True
    critic_steps: int = 1  # gan; scaler: which of three steps is skipped
    generator_every: int = 1  # gan
    own_target: bool = False  # the trained model is called without gradients first
    monitor: bool = False  # and again after the update
    scope: bool = False  # a user's scope around forward and backward
    mark: bool = False


@dataclass(frozen=True, repr=False)
class Val(Short):
    """An evaluation. source: full, few (of a loader), kept (an iterator), tensors."""

    source: str
    batches: int
    calls_eval: bool
    grad: str  # off, inference, on
    restores: bool


@dataclass(frozen=True, repr=False)
class Mid(Short):
    """An evaluation inside the loop, at one batch of every pass."""

    at: int
    before: bool  # between the fetch and the update
    val: Val


@dataclass(frozen=True, repr=False)
class Cut(Short):
    """One pass that ends early. how: break, return, raise; place: step, backward, fetch."""

    epoch: int
    batch: int
    how: str
    place: str


@dataclass(frozen=True, repr=False)
class Training(Short):
    """Passes over a loader."""

    shape: str
    loader: str
    batches: int
    epochs: int
    update: Update
    mid: Mid | None = None
    after: Val | None = None  # after every pass
    peek: str = "none"  # none, before, kept, forward, mid
    cut: Cut | None = None
    skip: int = 0  # batches of the first pass that are skipped: it is resumed in the middle


@dataclass(frozen=True, repr=False)
class Iterations(Short):
    """A loop without a loader."""

    count: int
    update: Update
    mid: Mid | None = None
    one_batch: bool = False  # trains with a batch that was looked at


@dataclass(frozen=True, repr=False)
class Rollouts(Short):
    """Reinforcement learning: forwards, then updates."""

    count: int
    length: int
    gradients: bool
    updates: int
    update: Update


@dataclass(frozen=True, repr=False)
class Nested(Short):
    """A training loader inside the body of another."""

    outer: int
    inner: int
    update: Update


@dataclass(frozen=True, repr=False)
class Look(Short):
    """An evaluation by itself."""

    val: Val


@dataclass(frozen=True, repr=False)
class Program(Short):
    parts: tuple
    epoch_steps: int = 1000
    in_eval: bool = False  # trains in evaluation mode
    around: bool = False  # a user's scope around each part
    shared: bool = False  # parts of the same form train the same models
    on_disk: bool = False  # with a spool, so that snapshots can be checked


WITHOUT_LOADER = (Iterations, Rollouts)

# -- strategies --

booleans = st.booleans()
rarely = st.sampled_from([False, False, False, True])
few = st.integers(1, 3)


def updates(forms, loader):
    def settle(update):
        changes = {}
        if update.form not in ONE_BACKWARD:
            changes["accumulate"] = 1
        if update.form not in SINGLE or update.form == "lbfgs":
            changes |= {"scope": False, "own_target": False, "monitor": False}
        if not loader:
            changes["flush_rest"] = False
        if update.scope:
            changes["own_target"] = False
        return Update(**(update.__dict__ | changes))

    return st.builds(
        Update,
        form=st.sampled_from(forms),
        accumulate=st.sampled_from([1, 1, 1, 2, 3]),
        flush_rest=booleans,
        zero_first=booleans,
        critic_steps=st.integers(1, 2),
        generator_every=st.integers(1, 2),
        own_target=rarely,
        monitor=rarely,
        scope=rarely,
        mark=rarely,
    ).map(settle)


def vals(sources=("full", "few", "kept", "tensors")):
    return st.builds(
        Val,
        source=st.sampled_from(sources),
        batches=few,
        calls_eval=booleans,
        grad=st.sampled_from(["off", "off", "inference", "on"]),
        restores=st.sampled_from([True, True, False]),
    )


def settled(val):
    """With gradients on, on a batch from a kept iterator, after a loop: it looks like a part of
    the next loop."""
    return replace(val, grad="off") if val.source == "kept" else val


def certain(mid, update, batches):
    """Turns gradients off where nothing could tell the evaluation from training: with gradients on,
    before a step or between its batches, it would count as part of that step or the last one. So
    would one after the last batch, on a batch from a kept iterator."""
    if mid is not None and mid.at == batches - 1:
        mid = replace(mid, val=settled(mid.val))
    between = update.accumulate > 1 and mid is not None and mid.val.source == "kept"
    if mid is None or not (mid.before or between) or mid.val.source in ("full", "few"):
        return mid
    return replace(mid, val=replace(mid.val, grad="off"))


def mids(batches, before=st.just(False)):  # noqa: B008
    return st.none() | st.builds(Mid, at=st.integers(0, batches - 1), before=before, val=vals())


def cuts(epochs, batches, update, shape):
    places = ["step"]
    if update.form in ONE_BACKWARD:
        places.append("backward")
    hows = ["break"] if shape == "while" else ["break", "return", "raise"]
    made = st.builds(
        Cut,
        epoch=st.integers(0, epochs - 1),
        batch=st.integers(0, batches - 1),
        how=st.sampled_from(hows),
        place=st.sampled_from(places),
    )
    if batches > 1:
        later = st.integers(1, batches - 1)
        made |= st.builds(
            Cut,
            epoch=st.integers(0, epochs - 1),
            batch=later,
            how=st.sampled_from(hows),
            place=st.just("fetch"),
        )
    return st.none() | made


@st.composite
def trainings(draw, forms=SINGLE + SEVERAL + LOADER_ONLY):
    shape = draw(st.sampled_from((*FOR_SHAPES, "while", *CYCLED_SHAPES)))
    # If a loader is fetched ahead as a whole, nothing tells where its epoch ends.
    ahead = {"ahead1": 1, "cycle_ahead": 1, "ahead2": 2}.get(shape, 0)
    epochs = draw(few)
    update = draw(updates(forms, loader=True))
    if ahead:
        # Otherwise nothing tells which is the last.
        update = replace(update, flush_rest=True, generator_every=1)
        ahead += update.accumulate - 1
    batches = draw(st.integers(1 + ahead, 5 + ahead))
    cycled = shape in CYCLED_SHAPES
    before = st.just(False) if update.form in BY_HAND or update.scope else rarely
    cut = None if cycled else draw(cuts(epochs, batches, update, shape))
    after = None if cycled else draw(st.none() | vals().map(settled))
    waits = shape == "while" and cut and cut.place == "fetch"
    if waits and after and after.source == "tensors":
        # With gradients on, it looks like training on the batch that waits.
        after = replace(after, grad="off")
    # Skipped batches differ from those fetched ahead only if a model gets the batch itself.
    skips = shape in ("plain", "bar", "fresh", "while") and cut is None and update.form != "bare"
    skip = draw(st.integers(1, batches - 1)) if skips and batches > 1 and draw(rarely) else 0
    return Training(
        shape=shape,
        loader=draw(st.sampled_from(["tensors", "iterable", "subclass"])),
        batches=batches,
        epochs=epochs,
        update=update,
        mid=certain(draw(mids(batches, before)), update, batches),
        after=after,
        peek=draw(st.sampled_from(["none", "none", "none", "before", "kept", "forward", "mid"])),
        cut=cut,
        skip=skip,
    )


@st.composite
def iterations(draw, forms=SINGLE + SEVERAL):
    update = draw(updates(forms, loader=False))
    # Nothing tells that a scope around a single step is an epoch's.
    count = max(draw(st.integers(2, 9)), 2 * update.accumulate)
    mid = draw(mids(count))
    if mid and mid.val.source == "kept" and update.scope:
        mid = replace(mid, val=replace(mid.val, grad="off"))
    return Iterations(
        count=count,
        update=update,
        mid=mid,
        one_batch=draw(rarely),
    )


rollouts = st.builds(
    Rollouts,
    count=st.integers(1, 3),
    length=st.integers(1, 4),
    gradients=booleans,
    updates=st.integers(1, 3),
    update=updates(("plain", "two_opts"), loader=False).map(
        lambda update: Update(form=update.form, zero_first=update.zero_first, mark=update.mark)
    ),
)
nested = st.builds(
    Nested,
    outer=few,
    inner=few,
    update=updates(("plain", "siamese", "two_opts"), loader=True).map(
        lambda update: Update(form=update.form, zero_first=update.zero_first)
    ),
)
looks = st.builds(Look, vals().map(settled))


def without_neighbours(parts):
    """Two loops without a loader, with no loop over a loader between them, look like one loop.

    And an accumulation that never reaches its step goes on with whatever follows.
    """
    kept, open_loop = [], False
    for part in parts:
        if isinstance(part, WITHOUT_LOADER):
            if open_loop:
                continue
            open_loop = True
        elif not isinstance(part, Look):
            open_loop = False
        kept.append(part)
    return tuple(to_its_end(part) for part in kept[:-1]) + tuple(kept[-1:])


def to_its_end(part):
    """Nor does anything tell that batches which were fetched ahead are never used."""
    if isinstance(part, Training) and "ahead" in part.shape:
        return replace(part, cut=None)
    if isinstance(part, Iterations):
        return replace(part, count=part.count + -part.count % part.update.accumulate)
    return part


PARTS = {
    "training": trainings(),
    "iterations": iterations(),
    "rollouts": rollouts,
    "nested": nested,
    "looks": looks,
}


def programs(kinds=()):
    """Programs of up to three parts; `kinds`: names in PARTS, otherwise all."""
    choice = [PARTS[kind] for kind in kinds] or [PARTS["training"], *PARTS.values()]
    usual = st.lists(st.one_of(choice), min_size=1, max_size=3)
    # An update by hand looks like an accumulation where anything else has an optimizer; and that
    # a model is trained is not known before its first backward.
    by_hand = st.one_of(trainings(BY_HAND), iterations(BY_HAND))
    before = st.builds(Look, vals(("full", "few")))
    alone = st.tuples(st.lists(before, max_size=1), by_hand, st.lists(looks, max_size=1)).map(
        lambda lists: [*lists[0], lists[1], *lists[2]]
    )
    return st.builds(
        Program,
        parts=(usual if kinds else st.one_of(usual, usual, usual, alone)).map(without_neighbours),
        epoch_steps=st.sampled_from([1000, 2, 3, 5]),
        in_eval=rarely,
        around=rarely,
        shared=booleans,
        on_disk=rarely,
    ).map(with_scopes)


def with_scopes(program):
    """Removes what cannot be told apart if the program opens scopes."""
    parts = program.parts
    if program.around:
        parts = tuple(in_scope(part) for part in parts)
    if any(part.update.scope for part in parts if not isinstance(part, Look)):
        # Whether a model in evaluation mode is trained is known too late.
        return replace(program, parts=tuple(restoring(part) for part in parts), in_eval=False)
    return replace(program, parts=parts)


def restoring(part):
    def restored(val):
        return val and replace(val, restores=True)

    if isinstance(part, Look):
        return Look(restored(part.val))
    if isinstance(part, Training):
        part = replace(part, after=restored(part.after))
    if isinstance(part, (Training, Iterations)) and part.mid:
        part = replace(part, mid=replace(part.mid, val=restored(part.mid.val)))
    return part


def in_scope(part):
    """If the program has a scope around every iteration, there are no epochs."""
    if isinstance(part, Rollouts) and part.count == 1:
        return replace(part, count=2)
    # That a batch was not used is known only after the end of the scope.
    return replace(part, cut=None) if isinstance(part, Training) else part
