"""What a training program says about itself while it runs: the truth for its trace.

A program of loop_programs.py calls `T`, a Truth, beside what it does: `T.epoch()` where a pass over
the training data begins, `T.op("forward")` before a forward, and so on. So every fetch, forward,
backward and optimizer step has a role. loop_check.py compares the roles with the spans.

Where no observer of a process could tell which answer is right, all of these are accepted:

1.  A validation before the first or after the last step of an epoch is in it or beside it, if the
    iterator of the epoch is still alive or there is no loader. So does one between the last
    step of one epoch and the first of the next.
2.  A validation between two steps of a loader's epoch is a child of the epoch or of a step.
3.  Forwards with gradients, in training mode, on tensors or on batches from an iterator that is
    kept, and never followed by a backward of theirs: a validation, or a part of the step before or
    after them. To tell, one would have to look into the graph of the next loss. In evaluation mode
    it is a validation between two steps of an epoch; elsewhere it may be none.
4.  A forward of a trained model without gradients inside a step (the target of a double DQN, the
    accuracy on the batch just trained with), also in evaluation mode, or one with gradients on a
    batch of another loader: a part of the step, or a validation in it.
5.  Collecting (rollouts): a validation, or spans that are in no step; with gradients anywhere.
6.  Several optimizers without a loader: where in an iteration a step begins; and if the first
    optimizer steps k times before the second does, whether that is one step or k. Where they take
    turns unevenly, only what leads to one optimizer step has to be in one step.
7.  Updates by hand from a loader: each batch a step, or (as in an accumulation that never came to
    its step) the whole pass one step.
8.  A training loader inside the body of another: the passes of one or the other are the epochs.
9.  A user's scope around a part of each iteration, in the first one, or in one that follows an
    evaluation: that scope is in the step, or the step is beside it. The same holds for the first
    step of a pass over a loader, if the model is in evaluation mode.
10. Left-over batches without a loader and without an optimizer step at the end: a step or outside.
11. In which step a batch is fetched that is trained with later; where a look at a batch is.
12. Two looks at validation data without anything between them, one of them not a pass over a
    loader of its own: one validation or two. The same holds when a kept iterator starts again.
13. An epoch that is left right after a fetch: that fetch may be a step without anything else.
14. A model that is trained in evaluation mode, and the first batch of its loop: if a look over
    another loader, with gradients on, comes before anything is done with it, its fetch may be in
    that validation.
"""

from dataclasses import dataclass, field


@dataclass
class Op:
    """A fetch, a forward, a backward or an optimizer step, and where it belongs.

    role: train (in the step `step` of `epoch`), val (in validation `val`), collect (in no step),
    free (anywhere), maybe (val or anywhere).
    """

    kind: str
    role: str
    section: int = 0
    epoch: int = 0
    step: int = 0
    val: int = 0
    lead: str = ""  # optimizer steps: which optimizer
    turn: int = 0  # iteration of the program, for sections without a loader

    def where(self):
        if self.role == "train":
            return f"part {self.section} epoch {self.epoch} step {self.step}"
        return f"validation {self.val}" if self.role in ("val", "maybe") else self.role


@dataclass
class Section:
    """A loop. `kind`: loader, nested, hand_loader, plain (without a loader), several, scoped."""

    kind: str
    scoped: bool = False  # the program has a scope around a part of each step
    optional_steps: set = field(default_factory=set)  # epochs that may end in a step of a fetch


@dataclass
class Look:
    """A stretch of evaluation."""

    number: int
    role: str  # val or maybe
    section: int
    epoch: int
    outside: bool  # between epochs: certainly in none
    in_step: bool  # may be a child of a step
    own_pass: bool  # a pass over a loader of its own
    by_hint: bool  # only eval() tells
    gradients: bool  # they are on
    inside_sure: bool = False  # steps of the same epoch before and after it: certainly in that one


class Truth:
    def __init__(self, epoch_steps, around=False):
        self.epoch_steps = epoch_steps
        self.around = around  # the program has a scope around each part
        self.ops, self.sections, self.looks = [], [], []
        self.skipped = self.marks = 0
        self.look = None
        self.skips = False  # the last update was skipped
        self.other_role = None
        self.epoch_no = self.step_no = self.turn = 0
        self.step_done = True
        self.pending = []
        self.wrapped = False
        self.in_eval = False  # a model was trained in evaluation mode: the hint tells nothing
        self.splits = set()  # ops that may begin another validation
        self.norms = {}  # by optimizer step: what a weight was after it

    # -- levels --

    def section(self, kind, scoped=False):
        self.sections.append(Section(kind, scoped))
        self.epoch_no, self.step_no, self.turn = -1, -1, -1
        self.step_done = True

    def epoch(self):
        self.epoch_no += 1
        self.step_no = -1
        self.step_done = True

    def batch(self, ahead=False):
        """A batch of the loader is there and is going to be trained with."""
        if self.step_done:
            self.step_no += 1
            self.step_done = False
        self.resolve("free" if ahead else "train")

    def iteration(self, accumulate=1):
        """The next iteration without a loader. A step is `accumulate` of them."""
        self.turn += 1
        self.resolve("free")
        number = self.turn // accumulate
        self.epoch_no, self.step_no = divmod(number, self.epoch_steps)
        self.step_done = False

    def passed_over(self):
        """Nothing is done with the batch."""
        self.resolve("free")

    def dropped(self):
        """The loop is left right after a fetch."""
        self.resolve("free")
        self.sections[-1].optional_steps.add(self.epoch_no)

    # -- what happens --

    def op(self, kind, role=None, lead=""):
        role = role or self.other_role or (self.look.role if self.look else "train")
        self.ops.append(self.placed(Op(kind, role, lead=lead)))
        if kind == "optimizer_step":
            self.step_done = True
        return len(self.ops) - 1

    def placed(self, op):
        op.section, op.epoch, op.step, op.turn = (
            len(self.sections) - 1,
            self.epoch_no,
            self.step_no,
            self.turn,
        )
        op.val = self.look.number if self.look else -1
        return op

    def update(self, skip=False, lead="o"):
        """An optimizer step, which a scaler may skip."""
        self.skips = skip
        if skip:
            self.skipped += 1
            self.step_done = True
        else:
            self.op("optimizer_step", lead=lead)

    def weights(self, model):
        """After an update: the norm of the first weight of the model."""
        self.in_eval |= not model.training
        steps = [
            n for n in range(len(self.ops) - 1, -1, -1) if self.ops[n].kind == "optimizer_step"
        ]
        if steps and not self.skips:
            self.norms[steps[0]] = model[0].weight.detach().double().norm().item()

    def by_hand(self, model):
        self.step_done = True
        self.in_eval |= not model.training

    def fetch(self):
        """Inside the fetch of a batch."""
        self.pending.append(self.op("data_load", role="free"))

    def resolve(self, role):
        for number in self.pending:
            self.ops[number].role = role
            self.placed(self.ops[number])
        self.pending = []

    def peek(self):
        self.resolve("free")

    def mark(self):
        self.marks += 1

    # -- evaluation --

    def val(self, place, own_pass, gradients_off, hint):
        """Evaluation begins. place: in (the loop of an epoch goes on) or between (epochs).

        An observer can tell by own_pass (over a loader) or gradients_off, and between two steps
        also by hint: eval() is called on a model in training mode. In the middle of a step it takes
        own_pass and gradients_off together.
        """
        self.resolve("free")
        kind = self.sections[-1].kind if self.sections else "none"
        sure = own_pass or gradients_off if self.step_done else own_pass and gradients_off
        hint = hint and self.step_done
        if kind == "uneven" and not own_pass:
            sure = hint = False
        steps_hold = ("loader", "nested", "hand_loader", "several", "uneven")
        in_step = kind in steps_hold or not self.step_done
        self.look = Look(
            len(self.looks),
            "val" if sure or hint else "maybe",
            len(self.sections) - 1,
            self.epoch_no,
            outside=place == "between",
            in_step=in_step and place == "in",
            own_pass=own_pass,
            by_hint=hint and not sure,
            gradients=not gradients_off,
        )
        self.looks.append(self.look)

    def val_batch(self):
        if self.wrapped:
            self.splits.update(self.pending)
        self.wrapped = False
        self.resolve(self.look.role)

    def end_val(self):
        self.resolve("free")
        self.look = None

    def new_pass(self):
        """A cycled loader starts again."""
        self.wrapped = True

    def collect(self, certain=True):
        self.resolve("free")
        self.other_role = "collect" if certain else "free"

    def end_collect(self):
        self.other_role = None

    # -- afterwards --

    def finish(self):
        """Settles what only the whole program tells."""
        self.pending = []
        for look in self.looks:
            mine = [n for n, op in enumerate(self.ops) if op.val == look.number]
            steps = [n for n, op in enumerate(self.ops) if self.is_step_of(op, look)]
            if mine and steps:
                look.inside_sure = steps[0] < mine[0] and steps[-1] > mine[-1]
            # A scope of the program may end before anything tells.
            cut = self.around and not look.own_pass
            if (look.by_hint or cut) and not look.inside_sure:
                look.role = "maybe"
                for n in mine:
                    self.ops[n].role = "maybe" if self.ops[n].role == "val" else self.ops[n].role
        return self

    @staticmethod
    def is_step_of(op, look):
        """Something of a step of the epoch that the look is in; a fetch alone is none yet."""
        here = (op.section, op.epoch) == (look.section, look.epoch)
        return op.role == "train" and op.kind != "data_load" and here

    # -- the right answers for a loop --

    def answers(self, section):
        """A list of dicts: op number -> (epoch, step), None for anywhere."""
        mine = [n for n, op in enumerate(self.ops) if op.section == section and op.role == "train"]
        said = {n: (self.ops[n].epoch, self.ops[n].step) for n in mine}
        kind = self.sections[section].kind
        if kind == "hand_loader":
            return [said, {n: (epoch, 0) for n, (epoch, _) in said.items()}]
        if kind == "nested":
            return [said, one_epoch(said)]
        if kind == "several":
            return [said, *self.by_leader(mine)]
        if kind == "scoped":
            return [said, self.loosely(mine, said)]
        answers = [said]
        if kind == "left_over":
            answers.append(self.without_rest(mine, said))
        if kind in ("plain", "left_over") and self.around:
            answers += [self.loosely(mine, answer) for answer in answers]
        return answers

    def by_leader(self, mine):
        """Steps that end with those of one optimizer, which steps in every iteration."""
        turns = len({self.ops[n].turn for n in mine})
        leads = [self.ops[n].lead for n in mine if self.ops[n].kind == "optimizer_step"]
        for lead in dict.fromkeys(leads):
            total = leads.count(lead)
            if total >= turns:
                yield self.cut_after(mine, lead, total)

    def cut_after(self, mine, lead, total):
        """What another optimizer does is a part of the step before it or after it."""
        answer, done, part = {}, 0, []
        for n in mine:
            part.append(n)
            if self.ops[n].kind != "optimizer_step":
                continue
            others = self.ops[n].lead != lead
            places = {min(done, total - 1), max(done - 1, 0)} if others else {done}
            done += not others
            for each in part:
                answer[each] = {divmod(place, self.epoch_steps) for place in places}
            part = []
        return answer | dict.fromkeys(part)

    def loosely(self, mine, said):
        return {n: None if self.is_loose(n) else said[n] for n in mine}

    def is_loose(self, number):
        """Before the optimizer step of the first iteration, or of one after an evaluation."""
        op = self.ops[number]
        if op.kind == "optimizer_step":
            return False
        if self.around and op.turn >= 0 and (op.epoch, op.step) == (0, 0):
            return True
        for before in reversed(self.ops[:number]):
            if before.section != op.section or before.val >= 0 or before.role == "free":
                return True
            if (before.epoch, before.step) != (op.epoch, op.step):
                return before.epoch != op.epoch and self.sections[op.section].kind != "scoped"
        return True

    def without_rest(self, mine, said):
        last = max((n for n in mine if self.ops[n].kind == "optimizer_step"), default=-1)
        return {n: said[n] if n <= last else None for n in mine}


def one_epoch(said):
    """The same steps, numbered without a break."""
    steps = {place: number for number, place in enumerate(dict.fromkeys(said.values()))}
    return {n: (0, steps[place]) for n, place in said.items()}
