"""Compares the trace of a program with what the program says about itself (loop_truth.py)."""

import math

PARTS = ("data_load", "forward", "backward", "optimizer_step")
LEVELS = ("epoch", "step", "validation")


class Place:
    """A span that is part of a step, and the levels around it."""

    def __init__(self, span, around):
        self.kind = span["name"]
        self.mode = span["attrs"].get("mode")
        self.epoch, self.step, self.val = (
            next((each for each in reversed(around) if each["name"] == level), None)
            for level in LEVELS
        )

    def is_in(self, said):
        return self.step is not None and self.step["index"] == said[1]

    def where(self):
        found = [
            f"{each['name']}{'' if each['index'] is None else [each['index']]}"
            for each in (self.epoch, self.val, self.step)
            if each is not None
        ]
        return " ".join(found) or "outside"


class Check:
    """`errors` is empty if the trace is one of the right ones."""

    def __init__(self, truth, root, snapshots=None):
        self.truth, self.root = truth, root
        self.snapshots = snapshots  # records by the id of their epoch; None: not known
        self.errors = []
        self.places, self.levels = [], {level: [] for level in LEVELS}
        self.visit(root, [])
        self.check_indices()
        if self.check_parts():
            for section in range(len(truth.sections)):
                self.check_section(section)
            self.check_looks()
            self.check_collecting()
            self.check_nothing_more()
            self.check_skipped()
            if snapshots is not None:
                self.check_snapshots()

    def check_times(self, span):
        """Children follow each other, inside their parent."""
        before, name = span["start_ns"], span["name"]
        for child in span["children"]:
            if (early := before - child["start_ns"]) > 0:
                self.say(f"{child['name']} in {name} begins {early} ns too early")
            before = child["end_ns"]
        if before > span["end_ns"]:
            self.say(f"{name} ends {before - span['end_ns']} ns before what is in it")

    def say(self, *words):
        self.errors.append(" ".join(map(str, words)))

    # -- the tree by itself --

    def visit(self, span, around):
        name = span["name"]
        self.check_times(span)
        if name in LEVELS:
            self.levels[name].append(span)
            self.check_nesting(span, around)
        elif name in PARTS:
            self.places.append(Place(span, around))
        for child in span["children"]:
            self.visit(child, [*around, span])

    def check_nesting(self, span, around):
        name, names = span["name"], [each["name"] for each in around]
        if name in names:
            self.say(name, "inside another", name)
        if name == "step" and "epoch" not in names:
            self.say("a step outside every epoch")
        if name in ("step", "epoch") and "validation" in names:
            self.say(name, "inside a validation")
        if name == "epoch" and "step" in names:
            self.say("an epoch inside a step")
        if name == "validation" and span["index"] is not None:
            self.say("a validation with an index")

    def check_indices(self):
        epochs = [epoch["index"] for epoch in self.levels["epoch"]]
        if epochs != list(range(len(epochs))):
            self.say("epochs are numbered", epochs)
        for epoch in self.levels["epoch"]:
            steps = [step["index"] for step in within(epoch, "step")]
            if steps != list(range(len(steps))):
                self.say(f"steps of epoch {epoch['index']} are numbered", steps)

    # -- against the program --

    def check_parts(self):
        said = [op.kind for op in self.truth.ops]
        seen = [place.kind for place in self.places]
        if said == seen:
            return True
        for kind in PARTS:
            if said.count(kind) != seen.count(kind):
                self.say(f"{kind}: {said.count(kind)} happened, {seen.count(kind)} are recorded")
        if not self.errors:
            self.say("the order is another")
        return False

    def check_section(self, section):
        """What was recorded is one of the right answers."""
        if self.truth.sections[section].kind == "uneven":
            self.check_uneven(section)
            return
        answers = self.truth.answers(section)
        errors = [self.compare(answer) for answer in answers]
        if all(errors):
            self.errors += errors[0][:8]

    def check_uneven(self, section):
        """What belongs to one step of an optimizer is in one step."""
        part = []
        for number, op in enumerate(self.truth.ops):
            if op.section != section or op.role != "train":
                continue
            part.append(self.places[number])
            if op.kind == "optimizer_step":
                if len({place.step and place.step["id"] for place in part}) != 1:
                    self.say(f"{number}: the step of one optimizer is spread over several")
                if part[0].epoch is None or part[0].val is not None:
                    self.say(f"{number}: a step is in", part[0].where())
                part = []

    def compare(self, answer):
        errors, steps, epochs = [], {}, {}
        for number, said in answer.items():
            place = self.places[number]
            label = f"{number}: {place.kind} is in {place.where()}, not in {self.said(number)}"
            if said is None or self.waits_for_a_look(number, place):
                continue
            if self.is_in_the_look(number, place):
                continue
            if self.is_beside_its_step(number, place):
                continue
            if isinstance(said, set):
                said = next((each for each in said if place.is_in(each)), min(said))
            if place.step is None or place.epoch is None or place.val is not None:
                errors.append(label)
                continue
            ids = place.epoch["id"], place.step["id"]
            if steps.setdefault(said, ids) != ids or place.step["index"] != said[1]:
                errors.append(label)
            if epochs.setdefault(said[0], ids[0]) != ids[0]:
                errors.append(f"{label} (another epoch)")
        if len(set(epochs.values())) != len(epochs):
            errors.append("two epochs are one")
        if len(set(steps.values())) != len(steps):
            errors.append("two steps are one")
        return errors

    def is_beside_its_step(self, number, place):
        scoped = self.truth.sections[self.truth.ops[number].section].scoped
        outside = place.step is None and place.val is None
        return scoped and outside and self.truth.is_loose(number)

    def waits_for_a_look(self, number, place):
        """A batch was fetched, and before anything is done with it comes a validation.

        The step begins after that, so the fetch is in the epoch and in no step.
        """
        later = [op.role for op in self.truth.ops[number + 1 :] if op.kind != "data_load"]
        looks = any(op.role in ("val", "maybe") for op in self.truth.ops[number + 1 :][:1])
        return (
            place.kind == "data_load"
            and place.step is None
            and place.val is None
            and place.epoch is not None
            and (looks or later[:1] in (["val"], ["maybe"], ["free"]))
        )

    def is_in_the_look(self, number, place):
        """The first batch of a loop that trains in evaluation mode, with a look after its fetch."""
        ops = self.truth.ops
        op, look = ops[number], ops[number + 1 : number + 2]
        if (op.kind, op.epoch, op.step) != ("data_load", 0, 0):
            return False
        if not look or look[0].kind != "data_load" or look[0].role not in ("val", "maybe"):
            return False
        trained = [
            self.places[n].mode
            for n, each in enumerate(ops)
            if n > number and each.kind == "forward" and each.where() == op.where()
        ]
        return (
            self.truth.looks[look[0].val].gradients
            and trained[:1] == ["eval"]
            and place.val is not None
            and place.val is self.places[number + 1].val
        )

    def said(self, number):
        return self.truth.ops[number].where()

    def check_looks(self):
        before = None
        for number, op in enumerate(self.truth.ops):
            if op.role in ("val", "maybe"):
                self.check_look(number, op)
                if before is not None:
                    self.check_same_look(before, number)
                before = number
            elif op.role != "free" or op.kind != "data_load":
                before = None

    def check_look(self, number, op):
        place, look = self.places[number], self.truth.looks[op.val]
        label = f"{number}: {op.kind} is in {place.where()}, not in {op.where()}"
        if op.role == "maybe":
            return
        if place.val is None or (place.step is not None and not look.in_step):
            self.say(label)
        elif look.outside and place.epoch is not None:
            self.say(label, "beside every epoch")
        elif look.inside_sure and not self.in_epoch_of(number, place, look):
            self.say(label, "inside its epoch")

    def in_epoch_of(self, number, place, look):
        """In the epoch that the steps before and after it are in."""
        steps = [n for n, op in enumerate(self.truth.ops) if self.truth.is_step_of(op, look)]
        if all(self.places[n].epoch is None for n in steps if n < number):
            return True  # there was none yet
        around = [self.places[n].epoch["id"] for n in steps if self.places[n].epoch is not None]
        return place.epoch is not None and place.epoch["id"] in around

    def check_same_look(self, before, number):
        one, two = self.places[before], self.places[number]
        if one.val is None or two.val is None:
            return
        first, second = (self.truth.ops[each] for each in (before, number))
        together = one.val["id"] == two.val["id"]
        if first.val == second.val and not together and number not in self.truth.splits:
            self.say(f"{number}: one validation became two")
        looks = self.truth.looks[first.val], self.truth.looks[second.val]
        if first.val != second.val and together and all(look.own_pass for look in looks):
            self.say(f"{number}: two validations became one")

    def check_collecting(self):
        for number, op in enumerate(self.truth.ops):
            kind = self.truth.sections[op.section].kind if op.section >= 0 else "none"
            several = kind in ("several", "uneven")
            if op.role == "collect" and self.places[number].step is not None and not several:
                self.say(f"{number}: {op.kind} of a rollout is in {self.places[number].where()}")

    def check_nothing_more(self):
        """There is no epoch, step or validation that contains nothing of the program."""
        known = {level: set() for level in LEVELS}
        for place, op in zip(self.places, self.truth.ops, strict=True):
            for level, span in zip(LEVELS, (place.epoch, place.step, place.val), strict=True):
                if span is not None and self.justifies(op, level):
                    known[level].add(span["id"])
        spare = sum(len(section.optional_steps) for section in self.truth.sections)
        for level in LEVELS:
            more = [
                span
                for span in self.levels[level]
                if span["id"] not in known[level] and not has_skipped(span)
            ]
            if level == "step" and all(only_fetches(span) for span in more):
                more = more[spare:]
            for span in more:
                index = "" if span["index"] is None else [span["index"]]
                self.say(f"{level}{index} should not be there")

    def justifies(self, op, level):
        """Whether that span is a reason for the level. Without a loader, a forward that may
        be the first of another step is one too."""
        if level == "validation":
            return op.kind == "forward" and op.role != "train"
        kind = self.truth.sections[op.section].kind if op.section >= 0 else "none"
        if self.truth.around and op.role == "maybe":
            return True  # the scope ended before anything could tell
        without_loader = ("plain", "several", "uneven", "scoped", "left_over")
        open_end = kind in without_loader and op.role == "maybe"
        return op.kind != "data_load" and (op.role == "train" or open_end)

    def check_skipped(self):
        seen = sum(step["attrs"].get("skipped") is True for step in self.levels["step"])
        if seen != self.truth.skipped:
            self.say(f"{self.truth.skipped} steps were skipped, {seen} say so")

    # -- snapshots --

    def check_snapshots(self):
        """An epoch in which an optimizer has stepped has the weights and gradients of its end."""
        updated = {}
        for number, place in enumerate(self.places):
            if place.kind == "optimizer_step" and place.epoch is not None:
                updated[place.epoch["id"]] = number
        for epoch in self.levels["epoch"]:
            records = self.snapshots.get(epoch["id"], [])
            names = [record["tensor_name"] for record in records]
            if len(set(names)) != len(names):
                self.say(f"epoch[{epoch['index']}] has a tensor twice:", sorted(names))
            if epoch["id"] in updated:
                self.check_capture(epoch, records, self.truth.norms.get(updated[epoch["id"]]))

    def check_capture(self, epoch, records, norm):
        """norm: the norm of the first weight of the trained model, after the last update."""
        label = f"epoch[{epoch['index']}]"
        if not any(record["tensor_name"].endswith(".grad") for record in records):
            self.say(label, "has no gradients")
        weights = [r for r in records if r["tensor_name"].endswith("0.weight") and r["stats"]]
        norms = [record["stats"]["norm"] for record in weights]
        if norm is not None and not any(math.isclose(norm, n, rel_tol=1e-6) for n in norms):
            self.say(label, f"ended with a weight of norm {norm}; recorded are {norms}")


def within(span, name):
    found = []
    for child in span["children"]:
        if child["name"] == name:
            found.append(child)
        found += within(child, name)
    return found


def has_skipped(span):
    """The step itself was skipped, which leaves nothing else, or it contains a skipped one."""
    steps = [span] if span["name"] == "step" else within(span, "step")
    return any(step["attrs"].get("skipped") for step in steps)


def only_fetches(span):
    return all(child["name"] == "data_load" for child in span["children"])
