"""What hooks say of training loops: steps, trainers, loops of frameworks other than torch."""

def begin_session() -> None:
    """A session begins: options are the usual ones, counts are zero."""

def set_epoch_steps(number: int) -> None:
    """How many steps make an epoch where there is no loader."""

def finish_all() -> None:
    """What the hooks have opened ends here, on every thread."""

def steps_taken() -> int:
    """How many steps the optimizers have taken in this session."""

def steps_skipped() -> int:
    """How many steps mixed precision has skipped in this session."""

def begin_trainer() -> None:
    """A trainer runs from here on: it opens the epochs, and there is no step outside them."""

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
    """The loop goes on with the batch that was just fetched. last: the epoch ends with it."""

def begin_module(what: str, dispatch: bool, owned: bool) -> int:
    """A "forward" or a "backward" begins in a loop of the program's own; returns its number.

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
