"""ci.wrap: the state of the estimator in copies, in other processes, and outside a dict."""

import copy
import gc
import inspect
import io
import pickle

import cirron as ci
import pytest
from child_process import run_python

sklearn = pytest.importorskip("sklearn")

import joblib  # noqa: E402
from sklearn.base import (  # noqa: E402
    BaseEstimator,
    clone,
)
from sklearn.linear_model import LogisticRegression, Ridge  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.neighbors import KDTree  # noqa: E402
from sklearn.pipeline import Pipeline, make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from wrapped_estimators import (  # noqa: E402
    Counter,
    X,
    Y,
    make_nested,
    sketch,
    through_pickle,
)

# -- copies and other processes --


def through_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


@pytest.mark.parametrize(
    "make_copy",
    [
        *(lambda model, n=n: through_pickle(model, n) for n in range(pickle.HIGHEST_PROTOCOL + 1)),
        through_joblib,
        copy.copy,
        copy.deepcopy,
    ],
)
def test_copy_is_wrapped_and_fitted(memory, make_copy):
    model = ci.wrap(make_nested()).fit(X, Y)
    twin = make_copy(model)
    assert twin is not model
    assert vars(twin) is not vars(model)
    assert type(twin) is type(model)
    before = len(sketch())
    assert (twin.predict(X) == model.predict(X)).all()
    once = (
        "predict:Pipeline(transform:FeatureUnion(transform:StandardScaler transform:PCA) "
        "predict:Ridge)"
    )
    assert sketch()[before:].strip() == f"{once} {once}"


def test_bound_method_can_be_pickled(memory):
    model = ci.wrap(Counter()).fit(X)
    assert through_pickle(model.predict)([0]) == [1]


class Rebuilt(Counter):
    def __reduce__(self):
        return type(self), (self.start,)


def test_pickling_of_its_own_is_kept(memory):
    twin = through_pickle(ci.wrap(Rebuilt(start=3)))
    twin.fit(X)
    assert twin.count_ == 4
    assert sketch() == "fit:Rebuilt"


def test_pickle_arrives_in_another_process(workdir):
    model = ci.wrap(make_pipeline(StandardScaler(), Ridge())).fit(X, Y)
    (workdir / "model.pickle").write_bytes(pickle.dumps((model, X)))
    run_python(
        """
        import pickle
        model, X = pickle.load(open("model.pickle", "rb"))
        import cirron as ci
        ci.profile(output="none", frameworks=[])
        model.predict(X)
        assert ci.trace(format="dict", name="predict")["span_count"] == 3
        """
    )


def test_search_in_other_processes(memory):
    search = GridSearchCV(ci.wrap(make_nested()), {"model__alpha": [0.1, 1.0]}, cv=2, n_jobs=2)
    search.fit(X, Y)
    plain = GridSearchCV(make_nested(), {"model__alpha": [0.1, 1.0]}, cv=2).fit(X, Y)
    assert search.best_params_ == plain.best_params_
    assert search.best_score_ == pytest.approx(plain.best_score_)
    # The best one is fitted in this process, the others in workers.
    assert sketch().count("fit:Pipeline") == 1
    assert isinstance(search.best_estimator_, Pipeline)


def test_cross_validation(memory):
    assert len(cross_val_score(ci.wrap(LogisticRegression()), X, Y, cv=3)) == 3
    assert sketch().count("fit:LogisticRegression") == 3
    assert sketch().count("score:LogisticRegression") == 3


def test_search_may_be_wrapped_itself(memory):
    ci.wrap(GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=2)).fit(X, Y).predict(X)
    assert sketch() == "fit:GridSearchCV predict:GridSearchCV"


def test_estimator_and_what_stands_for_it_stay_together():
    plain = Counter()
    other, model = through_pickle((plain, ci.wrap(plain)))
    model.fit(X)
    assert other.count_ == 1
    other, model = copy.deepcopy((plain, ci.wrap(plain)))
    model.fit(X)
    assert other.count_ == 1
    assert not hasattr(plain, "count_")


def test_estimator_that_refers_to_itself(memory):
    model = ci.wrap(Counter())
    model.callback = model.fit
    for twin in (through_pickle(model), copy.deepcopy(model)):
        assert twin.callback.__self__ is twin
        twin.callback(X)
        assert twin.count_ == 1
    assert not hasattr(model, "count_")


# -- state that is not in a dict --


class Slotted:
    __slots__ = ("__private", "seen")

    def fit(self, x):
        self.seen = len(x)
        self.__private = "kept"
        return self

    def private(self):
        return self.__private


class Both(Slotted):
    def __init__(self):
        self.extra = 1


@pytest.mark.parametrize("kind", [Slotted, Both])
def test_slots_are_those_of_the_estimator(memory, kind):
    plain = kind()
    model = ci.wrap(plain)
    assert not hasattr(model, "seen")
    assert model.fit(X) is model
    assert (plain.seen, plain.private()) == (40, "kept")
    plain.seen = 7
    assert model.seen == 7
    del model.seen
    assert not hasattr(plain, "seen")
    assert hasattr(model, "extra") == hasattr(plain, "extra")
    if kind is Slotted:
        with pytest.raises(AttributeError):
            model.another = 1
    assert isinstance(model, kind)
    assert ci.wrap(plain) is model
    assert through_pickle(model).private() == "kept"
    assert sketch() == f"fit:{kind.__name__}"


class InTheList(list):
    def fit(self, x):
        self.extend(x)
        return self

    def predict(self, x):
        return [self[0]] * len(x)


class InC(KDTree):
    """The state of its base is a struct."""

    def fit(self, x):
        self.fitted_ = True
        return self

    def predict(self, x):
        return self.query(x, return_distance=False)


def test_estimator_that_is_a_list(memory):
    plain = InTheList()
    model = ci.wrap(plain)
    assert isinstance(model, InTheList)
    assert isinstance(model, list)
    assert model.fit([3, 4]) is model
    assert plain == [3, 4]
    assert (model == plain, len(model), model[1], repr(model)) == (True, 2, 4, "[3, 4]")
    model.append(5)
    assert plain[-1] == 5
    assert model.predict("ab") == [3, 3]
    assert ci.wrap(model) is ci.wrap(plain) is model
    twin = through_pickle(model)
    assert list(twin) == [3, 4, 5]
    assert copy.deepcopy(twin).fit([6])[-1] == 6
    assert sketch() == "fit:InTheList predict:InTheList fit:InTheList"
    assert (type(model).__name__, inspect.signature(model.fit)) == (
        "InTheList",
        inspect.signature(plain.fit),
    )


def test_estimator_of_c(memory):
    plain = InC(X)
    model = ci.wrap(plain).fit(X)
    assert plain.fitted_
    assert isinstance(model, KDTree)
    assert (model.predict(X[:3]) == [[0], [1], [2]]).all()
    assert (through_pickle(model).predict(X[:1]) == [[0]]).all()
    model.note = 1
    assert plain.note == 1
    assert sketch() == "fit:InC predict:InC predict:InC"


class Restored(Counter):
    def fit(self, X, y=None):  # noqa: N803
        self.__dict__ = {"start": 1, "fails": False, "count_": 8}
        return self


def test_dict_that_is_replaced_is_that_of_the_estimator():
    plain = Restored()
    model = ci.wrap(plain).fit(X)
    assert (plain.count_, model.count_) == (8, 8)
    plain.fit(X)
    plain.count_ = 9
    assert model.predict([0]) == [9]
    model.count_ = 10
    assert plain.count_ == 10


class Guarded(Counter):
    ended = 0

    def __setattr__(self, name, value):
        if name.startswith("_"):
            raise AttributeError(f"{name} is not for you")
        super().__setattr__(name, value)

    def __getattr__(self, name):
        if name.startswith("virtual"):
            return name
        raise AttributeError(name)

    def __del__(self):
        type(self).ended += 1


def test_estimator_with_ways_of_its_own(memory):
    plain = Guarded()
    model = ci.wrap(plain).fit(X)
    assert (plain.count_, model.virtual_x) == (1, "virtual_x")
    with pytest.raises(AttributeError, match="not for you"):
        model._x = 1
    with pytest.raises(AttributeError, match="steps"):
        _ = model.steps
    del model
    gc.collect()
    assert Guarded.ended == 0
    del plain
    gc.collect()
    assert Guarded.ended == 1


class Steps(BaseEstimator):
    """Its attribute `steps` does not hold estimators."""

    def __init__(self, steps=(3, 4)):
        self.steps = steps

    def fit(self, x):
        self.transformers_ = [1, (2, 3)]
        return self


@pytest.mark.parametrize("steps", [7, (1, 2), [1, 2], [("a", 1)], []])
def test_steps_that_are_no_parts(steps):
    plain = Steps(steps)
    model = ci.wrap(plain).fit(X)
    assert model.steps is plain.steps is steps
    assert model.transformers_ is plain.transformers_
    assert clone(model).steps == steps
