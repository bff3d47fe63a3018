"""What hooks say of training loops: steps, trainers, loops of frameworks other than torch."""

def begin_session() -> None:
    """Begins a session: sets options to their defaults and counts to zero."""

def set_epoch_steps(number: int) -> None:
    """Sets how many steps make an epoch without a loader."""

def finish_all() -> None:
    """Ends what the hooks have opened, on every thread."""

def steps_taken() -> int:
    """How many steps the optimizers have taken in this session."""

def steps_skipped() -> int:
    """How many steps mixed precision has skipped in this session."""

def begin_trainer() -> None:
    """A trainer begins to run: it opens the epochs, and outside them there are no steps."""

def end_trainer() -> None:
    """The trainer has ended."""

def begin_announced() -> None:
    """A trainer runs that opens its epochs, steps and validations itself: none is inferred."""

def end_announced() -> None:
    """The trainer has ended."""

def begin_step(index: int) -> None:
    """Begins a step with this number; a step that a fetch has opened gets the number."""

def end_step() -> None:
    """Ends the step that is open, if there is one."""

def note_step_over() -> None:
    """The optimizer has taken the step that is open."""

def skip_step(optimizer: object) -> None:
    """Mixed precision has skipped the step of this optimizer."""

def end_closure() -> None:
    """The closure a trainer handed to an optimizer has run: the optimizer step itself begins."""

def end_epoch() -> None:
    """The innermost open epoch is over for snapshots, although its scope stays open."""

def begin_turn(last: bool) -> None:
    """Tells whether the epoch ends with the batch that was just fetched."""

def begin_module(what: str, dispatch: bool, owned: bool) -> int:
    """A "forward" or a "backward" begins in a loop that the program wrote; returns its number.

    dispatch: its time is that of handing work to a device. owned: an optimizer is known that
    trains the model.
    """

def end_module(number: int, exception: BaseException | None) -> None:
    """The forward or backward has returned or raised."""

def begin_update(source: object, whole: bool, dispatch: bool) -> int:
    """An update begins; returns its number. source: the optimizer, or the compiled function.

    whole: a step with forward and backward inside.
    """

def end_update(number: int, exception: BaseException | None) -> None:
    """The update has returned or raised."""
