"""The C++ engine as Python sees it. Everything here may be called from any thread."""

# ruff: noqa: N801  (the classes are called like functions, as the Cirron API names them)

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, final

_T = TypeVar("_T")

__version__: str

@final
class scope:
    """A named region: context manager and live span in one.

    The span opens at ``__enter__``, which returns the scope itself, or ``None`` when 64 scopes are
    already open on this thread (or task). ``__exit__`` closes that span, whatever else is open, and
    never swallows an exception. A scope object may be used again, also inside itself.
    """

    def __new__(cls, name: str, index: int | None = None, **attrs: object) -> Self: ...
    def __call__(self, *exc: object) -> object:
        """How ``with`` enters and leaves; not for programs."""
    def __enter__(self) -> scope | None: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    @property
    def id(self) -> str | None:
        """32 lowercase hexadecimal digits; None before the first ``__enter__``."""
    @property
    def name(self) -> str: ...
    @property
    def index(self) -> int | None: ...
    @property
    def attrs(self) -> dict[str, object]:
        """The attributes; may be changed until the span closes."""
    @property
    def parent_id(self) -> str | None: ...
    @property
    def start_ns(self) -> int | None:
        """Wall-clock nanoseconds."""
    @property
    def end_ns(self) -> int | None: ...
    @property
    def cpu_ns(self) -> int | None: ...
    @property
    def gpu_ns(self) -> int | None: ...
    @property
    def memory_peak_bytes(self) -> int | None: ...
    @property
    def thread_id(self) -> int | None: ...
    @property
    def pid(self) -> int | None: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def marks(self) -> list[str]:
        """Ids of the marks made on this span so far."""

@final
class epochs(Generic[_T], Iterator[_T]):
    """Yields the items of ``iterable`` unchanged, each in a scope ``epoch[0]``, ``epoch[1]``..."""

    def __new__(cls, iterable: Iterable[_T]) -> Self: ...
    def __iter__(self) -> epochs[_T]: ...
    def __next__(self) -> _T: ...
    def __len__(self) -> int: ...
    def __length_hint__(self) -> int: ...
    def close(self) -> None:
        """Closes the scope of the current item and ends the iteration."""

@final
class batches(Generic[_T], Iterator[_T]):
    """Yields the items of ``iterable`` unchanged, each in a scope ``batch[0]``, ``batch[1]``...

    The batch of a ``torch.utils.data.DataLoader`` carries the attribute ``data_load_ns``: the
    nanoseconds spent waiting for it.
    """

    def __new__(cls, iterable: Iterable[_T]) -> Self: ...
    def __iter__(self) -> batches[_T]: ...
    def __next__(self) -> _T: ...
    def __len__(self) -> int: ...
    def __length_hint__(self) -> int: ...
    def close(self) -> None:
        """Closes the scope of the current item and ends the iteration."""

class ArrowTable:
    """Spans as an Arrow table, for readers of the Arrow C stream; may be read repeatedly."""

    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class SummaryTable:
    """Spans added up by name; for readers of the Arrow C stream a row per name and place."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def text(self) -> str:
        """The aligned table of ``sonde trace --summary``."""
    def html(self) -> str:
        """The same for a browser."""
    def json(self) -> str:
        """The JSON of ``sonde trace --summary --json``."""

def mark(name: str, value: object, *, kind: str = "point", **attrs: object) -> None:
    """Attaches a value to the innermost open scope, or to the session when none is open.

    ``value``: float, int, str (cut at 256 UTF-8 bytes), bool, or a numpy or torch scalar.
    ``kind``: ``"point"`` for a series, ``"summary"`` for one final value.
    """

def start(
    *,
    output_dir: str | None,
    spool: bool,
    flush_interval: float,
    spool_max_bytes: int,
    trace_max_spans: int,
    rank: int,
    local_rank: int,
    world_size: int,
    on_demand: bool,
    attrs: dict[str, object],
    lines: list[tuple[str, str | None, Callable[[list[str]], None]]],
    on_batch: Callable[[str], None] | None,
) -> None:
    """Opens the session and its root scope ``cirron.session``, and starts the drain thread.

    ``output_dir`` is absolute, or None: nothing on disk. ``on_demand``: thread and files come
    when something is recorded, and never if nothing is. ``lines``: who gets the live lines of
    drained spans, each with a level (``"epoch"``, ``"step"``, ``"all"``) and a glob for names.
    ``on_batch`` gets the batch as JSON. They run on the drain thread with the GIL held, and what
    they raise is logged once.
    """

def slept_at_fork() -> bool:
    """In a forked child: the parent's session was on demand, and nothing had been recorded."""

def annotate(attrs: dict[str, object]) -> None:
    """Attributes of the session, from now on; those it has by another name stay.

    They are in the journal at once. Without a session nothing happens.
    """

def annotate_exception(exception: BaseException) -> None:
    """The session says that this exception was raised in it and caught by nobody."""

def exception_passes(exception: BaseException, since: int = 0) -> None:
    """The spans that are open on this stack have it, or those of them that were opened since."""

def opened_next() -> int:
    """What exception_passes takes as ``since``: the spans that this thread opens from now on."""

def stop(at_exit: bool = False) -> None:
    """Closes everything, drains a last time into sinks and transport, joins the drain thread.

    ``at_exit``: the process is about to end; its exit status will be added to the session's span.
    Idempotent; lets go of the GIL while it waits.
    """

def flush() -> None:
    """Drains now, into every sink and the transport; returns when that is done."""

def active() -> bool:
    """Whether a session is open in this process."""

def set_recording(enabled: bool) -> None:
    """False: scope, mark, epochs and batches record nothing."""

def counters() -> dict[str, int | str | None]:
    """Losses, sizes and state of the session."""

def trace_text(name: str | None, last: int | None) -> str:
    """The tree, one line per span."""

def trace_dict(name: str | None, last: int | None) -> dict[str, object]:
    """``{"roots": [...], "span_count": n}``."""

def trace_json(name: str | None, last: int | None) -> str:
    """The same as a JSON text."""

def trace_columns(name: str | None, last: int | None) -> dict[str, object]:
    """One column per field, one entry per span."""

def trace_arrow(name: str | None, last: int | None) -> ArrowTable:
    """The same for readers of Arrow."""

def trace_summary(name: str | None, last: int | None) -> SummaryTable:
    """The spans added up by name."""

def set_log_handler(handler: Callable[[int, str, str], None] | None) -> None:
    """Where the engine's messages go: level as in ``logging``, logger name, text."""

def encode_json(value: object) -> str:
    """One attribute value as JSON; the ``repr`` of what JSON has no form for."""

# -- for the framework hooks (sonde.hooks) --

def on_torch_use(callback: Callable[[], None] | None) -> None:
    """Calls it once, when torch's hook first has something to record; None: nobody."""

def claim_levels(scope: scope, epochs: bool, steps: bool, validation: bool = False) -> scope:
    """While this scope is open, hooks open no epoch, no step, no validation below it."""

def level_open(level: str) -> bool:
    """Whether an "epoch", a "step" or a "validation" that no hook inferred is open here."""

def scope_open(name: str) -> bool:
    """Whether a scope of this name is open here; a batch is a step."""

def mark_level(level: str, name: str, value: object, summary: bool) -> bool:
    """Attaches a value to the innermost open scope of that name; false if there is none."""

def drop_scope(scope: scope) -> bool:
    """As if it had never been entered; false when something was recorded in it since."""

def mark_on(scope: scope, name: str, value: float, summary: bool = False) -> None:
    """Attaches a float to this very scope, also when it is closed by now.

    A mark that comes after the end of its span names it, but the span does not list it.
    """

def hook_module_call(function: Callable[..., object]) -> bool:
    """Calls of this function object are forwards from now on; false if they were before."""

def unhook_module_calls() -> None:
    """Everything hook_module_call did is undone."""

def iterate_loader(
    original: Callable[[_T], Iterator[object]], loader: _T, length: Callable[[_T], int]
) -> Iterator[object]:
    """What original(loader) returns, with its fetches on record."""

def time_backward(original: Callable[..., object]) -> Callable[..., object]:
    """A callable that does what original does inside a backward span."""

def quiet_forwards(on: bool) -> None:
    """True: calls of modules on this thread are no forwards, until it is called with False."""

def optimizer_begins(
    optimizer: object, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]] | None:
    """torch's global optimizer hook before a step."""

def optimizer_ends(optimizer: object, args: object, kwargs: object) -> None:
    """torch's global optimizer hook after a step."""

def pass_begins(what: str, dispatch: bool, owned: bool) -> int:
    """A "forward" or a "backward" of a loop of the program's own begins; its number.

    dispatch: its time is that of handing work to a device. owned: an optimizer is known that
    trains the model.
    """

def pass_ends(number: int, exception: BaseException | None) -> None:
    """It has returned or raised."""

def update_begins(source: object, whole: bool, dispatch: bool) -> int:
    """An update begins; its number. source: the optimizer, or the compiled function.

    whole: a step with forward and backward inside.
    """

def update_ends(number: int, exception: BaseException | None) -> None:
    """It has returned or raised."""

def know_model(module: object) -> None:
    """Forwards of its parts have their names in it, although it may never be called itself."""

def know_symbolic(type: type | None) -> None:
    """Modules called with such a value compute nothing: no forward."""

def levels_open() -> bool:
    """Whether an epoch, step, batch, validation, predict or train is open anywhere."""

def levels_recorded() -> bool:
    """The same for the spans of the session, as far as they are held."""

def begin_jitted(
    role: Callable[[object, tuple[object, ...]], str | None],
    note: Callable[[object, tuple[object, ...], object], None],
) -> None:
    """watch_jitted may be used.

    role(function, args): is it a "step", a "backward", or None yet? note(function, args, result):
    what it got and returned.
    """

def watch_jitted(function: object) -> bool:
    """Calls of this compiled function may be training steps."""

def unwatch_jitted() -> None:
    """Everything watch_jitted did is undone."""

def jitted_differentiates() -> None:
    """The compiled function that is being called differentiates."""

def queue_watch() -> None:
    """From here on the work of a device is followed: scopes with gpu=True get their time there."""

def queue_unwatch() -> None:
    """No longer."""

def queue_submit() -> int:
    """A piece of work was handed to the device; its number."""

def queue_done(piece: int) -> None:
    """The device has just finished it. On any thread."""

def queue_abandon(piece: int) -> None:
    """Nobody will say when it, or one before it, was finished."""

def step_over() -> None:
    """The step under way has been taken."""

def step_skipped(optimizer: object) -> None:
    """Mixed precision has skipped the step of this optimizer."""

def steps_taken() -> int:
    """How many steps the optimizers have taken in this session."""

def steps_skipped() -> int:
    """How many steps mixed precision has skipped in this session."""

def note_optimizer(optimizer: object) -> None:
    """What is in its param_groups is trained. It is not kept alive."""

def forget_optimizers() -> None:
    """No optimizer is known any more."""

def finish_hooks() -> None:
    """What the hooks have opened ends here, on every thread."""

def step_begins(index: int) -> None:
    """A step with this number begins, or is the one that a fetch has opened."""

def step_ends() -> None:
    """The step that is open, if one is, ends here."""

def trainer_begins() -> None:
    """A trainer runs from here on: epochs are its own, and there is no step outside of them."""

def trainer_ends() -> None:
    """It has ended."""

def announced_begins() -> None:
    """A trainer runs that opens its epochs, steps and validations itself: none is inferred."""

def announced_ends() -> None:
    """It has ended."""

def closure_ends() -> None:
    """The closure a trainer handed to an optimizer has run: the optimizer step itself begins."""

def know_torch(
    is_grad_enabled: object,
    graph_task: object,
    cuda: object,
    raw_stream: object,
    device: object,
    memory_stats: object,
) -> None:
    """What the hooks ask of torch; each may be None."""

def set_epoch_steps(number: int) -> None:
    """How many steps make an epoch where there is no loader."""

def gpu_events_made() -> int:
    """How many CUDA events the pool has had to create."""

def measure_tensors(
    tensors: Sequence[object], threads: int = 1, describe: bool = True
) -> list[dict[str, Any] | None]:
    """Statistics of each tensor; None where its memory cannot be had.

    Without `describe` they are taken, and nothing is said: dicts cost more than small tensors do.
    """

def read_tensor(tensor: object) -> dict[str, Any]:
    """Whether and how a tensor's memory can be read, its dtype, shape and device.

    The device is (type, index) in DLPack's numbers.
    """

def want_cuda(nvrtc: list[str] | None) -> None: ...
def prepare_cuda(device: int) -> str: ...
def compile_kernels(major: int, minor: int) -> bytes: ...
def watch_epochs(
    on_epoch: Callable[[int, int | None, int | None, int, dict[int, int]], None] | None,
    on_gradients: Callable[[Any, int, int, int | None, int, bool], None] | None,
    on_trained: Callable[[Any], None] | None,
    on_gone: Callable[[int, Any], None] | None,
) -> None:
    """Who is told what snapshots want to know; None for all ends it.

    ========================================================= ======================================
    on_epoch(sequence, index, step, stack, steps)             an epoch has ended
    on_gradients(optimizer, number, sequence, index, stack,   its gradients are to be measured
    last)
    on_trained(module)                                        it has got its first gradients
    on_gone(id of the optimizer, param_groups)                an optimizer of ``expect_farewell``
                                                              has died, just now
    ========================================================= ======================================

    ``stack`` is the epoch's ``this_stack()``, ``steps`` how many each optimizer took in it, by
    ``id()``; ``number`` is that of the optimizer's step, ``last``: it is likely to be the epoch's
    last.
    """

def epoch_over() -> None:
    """The epoch that is open here has ended, although its scope stays open."""

def end_open_epochs() -> None:
    """Tells the end of every epoch that is still open, on whatever thread."""

def batch_is_last(last: bool) -> None:
    """Whether the epoch ends with the batch that is there."""

def model_is_known() -> None:
    """There is something to take snapshots of."""

def seen_models() -> list[tuple[Any, bool, bool]]:
    """The modules that were called and are alive.

    With: has it run in training mode, has it had a gradient?
    """

def seen_optimizers() -> list[Any]:
    """The optimizers that are known and alive."""

def seen_version() -> int:
    """Another number whenever another model or optimizer is known."""

def living_modules() -> list[Any]:
    """Every torch module of the process. Takes some milliseconds."""

def expect_farewell(optimizer: Any) -> bool:
    """on_gone is told when this optimizer dies. False: it cannot be."""

def measure_again() -> None:
    """What was measured in the epoch is worth nothing: the next step of each optimizer is."""

def open_epoch() -> tuple[int, int | None] | None:
    """Sequence and index of the epoch that is open here."""

def this_stack() -> int:
    """A number for the thread or task that runs, never given to another. 0: it is not recorded."""

class Captured:
    def __len__(self) -> int: ...
    """Statistics of tensors that wait for their epoch."""

    @property
    def names(self) -> list[str]:
        """Of the parameters, those of gradients without ``.grad``."""

    def zeros(self) -> list[str]:
        """The names of those that are all zero, as far as is known by now."""

def parameter_ids(source: Any) -> list[tuple[str, int]]:
    """Name and id() of each parameter of a module, or of pairs of a name and a tensor."""

def capture(
    models: list[tuple[str, Any]],
    gradients: bool,
    parameters: list[Any] | None,
    skip: set[str],
    whole: bool,
    threads: int,
    resolve: Callable[[list[tuple[Any, bool]]], list[Any]],
    fallback: Callable[[list[Any]], list[Any]],
) -> Captured:
    """Statistics of the parameters of models, or of the gradients of some of them.

    ``whole``: the tensors themselves as well. ``resolve`` is asked about tensors that are not plain
    memory (and whether they are parts of one), ``fallback`` measures what lies on other devices.
    """

def submit(
    captured: list[tuple[Captured, dict[str, Any]]],
    sequence: int,
    epoch: int | None,
    step: int | None,
    mode: str,
    more: bool,
) -> None:
    """Hands captures of one kind, each with its attributes, to the session as part of an epoch.

    more: those of the other kind follow at once.
    """

def write_blob(names: Sequence[str], tensors: Sequence[object], kind: str) -> str:
    """Writes tensors as a blob of their own, without statistics: for tests and benches.

    The id of the span they would belong to, which is where they are: ``snapshots/<id>/``.
    """
