"""ci.wrap: a scikit-learn estimator whose calls are scopes, and that is otherwise what it was."""

import copy
import gc
import inspect
import io
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import cirron as ci
import pytest
from child_process import run_python

sklearn = pytest.importorskip("sklearn")

import joblib  # noqa: E402
from sklearn.base import (  # noqa: E402
    BaseEstimator,
    TransformerMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.cluster import KMeans  # noqa: E402
from sklearn.compose import ColumnTransformer  # noqa: E402
from sklearn.datasets import make_classification  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.ensemble import RandomForestClassifier  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.neighbors import KDTree  # noqa: E402
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline  # noqa: E402
from sklearn.preprocessing import MinMaxScaler, StandardScaler  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402
from sklearn.utils import estimator_html_repr  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402
from sklearn.utils.validation import check_is_fitted, has_fit_parameter  # noqa: E402

X, Y = make_classification(40, n_features=4, random_state=0)


def sketch(span=None):
    """`fit:Pipeline(fit_transform:PCA fit:Ridge)`"""
    if span is None:
        (span,) = ci.trace(format="dict")["roots"]
        return " ".join(map(sketch, span["children"]))
    text = f"{span['name']}:{span['attrs'].get('estimator')}"
    return f"{text}({' '.join(map(sketch, span['children']))})" if span["children"] else text


class Counter(BaseEstimator):
    """Does nothing, so that its scopes are the only ones."""

    def __init__(self, start=0, fails=False):
        self.start = start
        self.fails = fails

    def fit(self, X, y=None, *, weight=None):  # noqa: N803  (scikit-learn knows it by its name)
        if self.fails:
            raise LookupError("as asked for")
        self.count_ = self.start + 1
        return self

    def predict(self, x):
        return [self.count_] * len(x)


class Unchanged(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    def fit(self, x, y=None):
        return self

    def transform(self, x):
        return x

    def get_feature_names_out(self, names=None):
        return names


class Bare:
    """An estimator only by what it can do."""

    def fit(self, x):
        self.seen = len(x)
        return self


# -- what is recorded --


def test_call_is_a_scope_with_the_name_of_the_class(memory):
    model = ci.wrap(RandomForestClassifier(n_estimators=2, random_state=0))
    model.fit(X, Y)
    assert sketch() == "fit:RandomForestClassifier"


def test_every_call_of_the_contract_and_its_relatives(memory):
    ci.wrap(Counter()).fit(X).predict(X)
    forest = ci.wrap(LogisticRegression().fit(X, Y))
    forest.predict_proba(X)
    forest.predict_log_proba(X)
    forest.score(X, Y)
    scaler = ci.wrap(MinMaxScaler())
    scaler.fit_transform(X)
    scaler.inverse_transform(X)
    ci.wrap(KMeans(2, n_init=1)).fit_predict(X)
    ci.wrap(SGDClassifier(loss="log_loss")).partial_fit(X, Y, classes=[0, 1])
    assert sketch() == (
        "fit:Counter predict:Counter "
        "predict_proba:LogisticRegression(decision_function:LogisticRegression) "
        "predict_log_proba:LogisticRegression(predict_proba:LogisticRegression("
        "decision_function:LogisticRegression)) "
        "score:LogisticRegression(predict:LogisticRegression("
        "decision_function:LogisticRegression)) "
        "fit_transform:MinMaxScaler(fit:MinMaxScaler(partial_fit:MinMaxScaler) "
        "transform:MinMaxScaler) inverse_transform:MinMaxScaler "
        "fit_predict:KMeans(fit:KMeans) partial_fit:SGDClassifier"
    )


def test_scope_closes_when_the_call_raises(memory):
    model = ci.wrap(Counter(fails=True))
    with pytest.raises(LookupError, match="as asked for"):
        model.fit(X)
    with ci.scope("after"):
        pass
    assert sketch() == "fit:Counter after:None"


def test_nothing_but_the_calls_is_recorded(memory):
    model = ci.wrap(Counter())
    model.get_params()
    model.set_params(start=3)
    repr(model), model._repr_html_(), clone(model)
    assert sketch() == ""


def test_scopes_lie_where_the_call_is(memory):
    with ci.scope("mine"):
        ci.wrap(Counter()).fit(X)
    assert sketch() == "mine:None(fit:Counter)"


def test_it_needs_no_session():
    model = ci.wrap(Counter(start=4)).fit(X)
    assert model.predict([0]) == [5]


def test_method_of_an_instance_is_the_same(memory):
    ci.Cirron().wrap(Counter()).fit(X)
    assert sketch() == "fit:Counter"


# -- parts --


def make_nested():
    union = FeatureUnion([("scaled", StandardScaler()), ("reduced", PCA(2)), ("off", "drop")])
    return Pipeline([("union", union), ("asis", "passthrough"), ("model", Ridge())])


SCALED = "fit_transform:StandardScaler(fit:StandardScaler(partial_fit:StandardScaler) "
SCALED += "transform:StandardScaler)"


def test_steps_lie_under_their_pipeline(memory):
    ci.wrap(make_nested()).fit(X, Y).predict(X)
    assert sketch() == (
        f"fit:Pipeline(fit_transform:FeatureUnion({SCALED} fit_transform:PCA) fit:Ridge) "
        "predict:Pipeline(transform:FeatureUnion(transform:StandardScaler transform:PCA) "
        "predict:Ridge)"
    )


def test_transformers_of_columns_lie_under_theirs(memory):
    columns = ColumnTransformer(
        [("a", StandardScaler(), [0, 1]), ("b", "passthrough", [2]), ("c", "drop", [3])]
    )
    ci.wrap(columns).fit_transform(X)
    assert sketch() == f"fit_transform:ColumnTransformer({SCALED})"


def test_fitted_column_transformer_has_its_fitted_parts_wrapped(memory):
    columns = ColumnTransformer([("a", StandardScaler(), [0, 1])]).fit(X)
    ci.wrap(columns).transform(X)
    assert sketch() == "transform:ColumnTransformer(transform:StandardScaler)"


def test_pipeline_that_was_given_is_fitted_and_stays_plain(memory):
    pipeline = make_nested()
    union, ridge = pipeline["union"], pipeline["model"]
    ci.wrap(pipeline).fit(X, Y)
    check_is_fitted(pipeline)
    assert pipeline["union"] is union
    assert pipeline["model"] is ridge
    assert type(pipeline) is Pipeline
    assert type(pipeline.steps) is list
    assert [type(step) for _, step in pipeline.steps] == [FeatureUnion, str, Ridge]
    assert type(union.transformer_list[0][1]) is StandardScaler
    assert ridge.coef_.shape == (6,)
    ci.flush()
    count = ci.trace(format="dict")["span_count"]
    pipeline.fit(X, Y).predict(X)
    assert ci.trace(format="dict")["span_count"] == count


def test_column_transformer_that_was_given_is_fitted_and_stays_plain(memory):
    columns = ColumnTransformer([("a", StandardScaler(), [0, 1]), ("b", "drop", [2])])
    wrapped = ci.wrap(columns)
    wrapped.fit(X)
    assert [type(part[1]) for part in columns.transformers_[:2]] == [StandardScaler, str]
    assert columns.transform(X).shape == (40, 2)
    wrapped.transform(X)
    assert sketch().endswith("transform:ColumnTransformer(transform:StandardScaler)")


def test_parts_fitted_in_other_processes_come_back_plain(memory):
    union = FeatureUnion([("a", StandardScaler()), ("b", PCA(2))], n_jobs=2)
    ci.wrap(union).fit(X)
    assert [type(part) for _, part in union.transformer_list] == [StandardScaler, PCA]
    check_is_fitted(union.transformer_list[1][1])


def test_part_that_was_wrapped_before_its_pipeline_stays_so(memory):
    scaler = ci.wrap(StandardScaler())
    pipeline = make_pipeline(scaler, Ridge())
    ci.wrap(pipeline).fit(X, Y)
    assert pipeline[0] is scaler
    assert type(pipeline[1]) is Ridge
    before = len(sketch())
    pipeline.predict(X)
    assert sketch()[before:].strip() == "transform:StandardScaler"


def test_changed_steps_are_those_of_the_pipeline(memory):
    pipeline = make_pipeline(StandardScaler(), Ridge())
    wrapped = ci.wrap(pipeline)
    assert wrapped.steps is wrapped.steps
    assert wrapped[1] is wrapped[1]
    assert wrapped[1] is ci.wrap(pipeline[1])
    wrapped.steps.insert(1, ("reduced", PCA(2)))
    assert [type(step) for _, step in pipeline.steps] == [StandardScaler, PCA, Ridge]
    pipeline.steps.pop(0)
    assert len(wrapped.steps) == 2
    wrapped.steps[0] = ("other", MinMaxScaler())
    assert [type(step) for _, step in pipeline.steps] == [MinMaxScaler, Ridge]
    wrapped.set_params(ridge=LogisticRegression())
    assert type(pipeline[1]) is LogisticRegression
    wrapped.steps += [("last", Ridge())]
    del wrapped.steps[1]
    assert [name for name, _ in pipeline.steps] == ["other", "last"]
    wrapped.fit(X, Y)
    assert sketch().startswith("fit:Pipeline(fit_transform:MinMaxScaler(")
    assert pickle.loads(pickle.dumps(wrapped.steps))[0][0] == "other"


def test_slice_of_a_pipeline(memory):
    wrapped = ci.wrap(make_pipeline(StandardScaler(), PCA(2), Ridge())).fit(X, Y)
    head = wrapped[:2]
    before = len(sketch())
    assert head.transform(X).shape == (40, 2)
    assert sketch()[before:].strip() == (
        "transform:Pipeline(transform:StandardScaler transform:PCA)"
    )
    assert through_pickle(head).transform(X).shape == (40, 2)


def test_step_of_a_pipeline_of_the_user(memory):
    pipeline = make_pipeline(StandardScaler(), ci.wrap(LogisticRegression()))
    assert list(pipeline.named_steps) == ["standardscaler", "logisticregression"]
    pipeline.fit(X, Y)
    assert sketch() == "fit:LogisticRegression"


def test_pipeline_with_a_cache_keeps_its_scopes(memory, workdir):
    pipeline = make_pipeline(StandardScaler(), Ridge(), memory=str(workdir / "cache"))
    ci.wrap(pipeline).fit(X, Y)
    assert sketch() == f"fit:Pipeline({SCALED} fit:Ridge)"
    ci.wrap(pipeline).fit(X, Y)  # from the cache
    assert sketch() == f"fit:Pipeline({SCALED} fit:Ridge) fit:Pipeline(fit:Ridge)"


# -- what stays as it was --


def test_it_is_an_instance_that_looks_the_same():
    plain = RandomForestClassifier(n_estimators=5)
    model = ci.wrap(plain)
    assert isinstance(model, RandomForestClassifier)
    assert type(model) is not RandomForestClassifier
    assert repr(type(model)) == repr(RandomForestClassifier)
    assert repr(model) == repr(plain)
    assert model.__doc__ == plain.__doc__
    assert inspect.signature(model.fit) == inspect.signature(plain.fit)
    assert inspect.signature(type(model)) == inspect.signature(RandomForestClassifier)
    assert model.fit.__doc__ == plain.fit.__doc__
    assert has_fit_parameter(model, "sample_weight")
    assert is_classifier(model)
    assert is_regressor(ci.wrap(Ridge()))
    assert "RandomForestClassifier" in model._repr_html_()
    assert "StandardScaler" in estimator_html_repr(ci.wrap(make_nested()))


def test_parameters():
    model = ci.wrap(RandomForestClassifier(n_estimators=5))
    assert model.get_params() == RandomForestClassifier(n_estimators=5).get_params()
    assert model.set_params(n_estimators=7) is model
    assert model.n_estimators == 7
    pipeline = ci.wrap(make_nested()).set_params(model__alpha=3.0)
    assert pipeline.get_params()["model__alpha"] == 3.0


def test_fitting_what_is_returned_fits_what_was_given():
    plain = LogisticRegression()
    model = ci.wrap(plain)
    assert model.fit(X, Y) is model
    assert plain.coef_ is model.coef_
    check_is_fitted(plain)
    assert type(plain) is LogisticRegression
    assert (plain.predict(X) == model.predict(X)).all()


def test_attributes_are_those_of_the_estimator():
    plain = Counter(start=2)
    model = ci.wrap(plain)
    model.start = 9
    assert plain.start == 9
    plain.note = "mine"
    assert model.note == "mine"
    assert plain.set_params(start=4) is plain
    assert model.get_params()["start"] == 4
    del model.note
    assert not hasattr(plain, "note")
    assert vars(model) is vars(plain)


def test_fitting_what_was_given_fits_what_was_returned(memory):
    plain = Counter()
    model = ci.wrap(plain)
    plain.fit(X)
    assert model.count_ == 1
    assert sketch() == ""


def test_fitted_stays_fitted():
    model = ci.wrap(LogisticRegression().fit(X, Y))
    check_is_fitted(model)
    assert model.predict(X).shape == Y.shape
    with pytest.raises(NotFittedError):
        check_is_fitted(ci.wrap(LogisticRegression()))


def test_clone_is_wrapped_and_not_fitted(memory):
    model = ci.wrap(make_nested()).fit(X, Y)
    other = clone(model)
    with pytest.raises(NotFittedError):
        check_is_fitted(other)
    before = len(sketch())
    other.fit(X, Y)
    fresh = sketch()[before:].strip()
    assert fresh.startswith("fit:Pipeline(fit_transform:FeatureUnion(")
    assert fresh.endswith("fit:Ridge)")


def test_methods_are_there_under_the_same_conditions():
    assert not hasattr(ci.wrap(LinearSVC()), "predict_proba")
    assert not hasattr(ci.wrap(SGDClassifier(loss="hinge")), "predict_proba")
    assert hasattr(ci.wrap(SGDClassifier(loss="log_loss")), "predict_proba")
    assert not hasattr(ci.wrap(make_pipeline(StandardScaler(), PCA())), "predict")
    assert hasattr(ci.wrap(make_pipeline(StandardScaler(), Ridge())), "predict")
    assert not hasattr(ci.wrap(Counter()), "transform")


def test_output_of_transformers_can_be_set_where_it_could_before(memory):
    pandas = pytest.importorskip("pandas")
    frame = ci.wrap(StandardScaler()).set_output(transform="pandas").fit_transform(X)
    assert isinstance(frame, pandas.DataFrame)
    assert not hasattr(Unchanged(), "set_output")
    assert not hasattr(ci.wrap(Unchanged()), "set_output")


def test_metadata_can_be_requested():
    with sklearn.config_context(enable_metadata_routing=True):
        model = ci.wrap(Counter()).set_fit_request(weight=True)
        assert model.get_metadata_routing().fit.requests == {"weight": True}


@pytest.mark.parametrize(
    "estimator",
    [Ridge(), StandardScaler(), KMeans(n_init=1), make_pipeline(StandardScaler(), Ridge())],
    ids=["Ridge", "StandardScaler", "KMeans", "Pipeline"],
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_finds_no_difference(estimator):
    def results(candidate):
        return {
            (check["check_name"], check["status"])
            for check in check_estimator(candidate, on_fail=None)
            # A list of wrapped steps that is set comes back as another list of them.
            if not (isinstance(candidate, Pipeline) and check["check_name"] == "check_set_params")
        }

    assert results(ci.wrap(estimator)) == results(estimator)


# -- copies and other processes --


def through_pickle(model, protocol=pickle.HIGHEST_PROTOCOL):
    return pickle.loads(pickle.dumps(model, protocol))


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
    # The best one is fitted here, the others elsewhere.
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
    """Its steps are no parts."""

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


# -- what may be wrapped --


def test_wrapped_twice_is_wrapped_once(memory):
    model = ci.wrap(Counter())
    assert ci.wrap(model) is model
    pipeline = ci.wrap(make_pipeline(ci.wrap(StandardScaler()), Ridge()))
    pipeline.fit(X, Y)
    assert sketch() == f"fit:Pipeline({SCALED} fit:Ridge)"


def test_estimator_wrapped_twice_has_one_wrapper(memory):
    plain = Counter()
    model = ci.wrap(plain)
    assert ci.wrap(plain) is model
    ci.wrap(plain).fit(X)
    assert sketch() == "fit:Counter"
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert ci.wrap(plain).count_ == 1
    assert ci.wrap(Counter()) is not ci.wrap(plain)


def test_wrapped_from_many_threads_at_once(memory):
    plain = Counter()
    with ThreadPoolExecutor(8) as pool:
        models = list(pool.map(lambda _: ci.wrap(plain).fit(X), range(200)))
    assert {model.count_ for model in models} == {1}
    assert sketch() == " ".join(["fit:Counter"] * 200)


def test_estimator_without_parameters(memory):
    assert ci.wrap(Bare()).fit(X).seen == len(X)
    assert sketch() == "fit:Bare"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (42, "not int: it has no fit"),
        (None, "not NoneType"),
        ("LogisticRegression", "not str"),
        (len, "not builtin_function_or_method"),
        (LogisticRegression, r"not a class: ci.wrap\(LogisticRegression"),
    ],
)
def test_anything_else_is_refused(value, said):
    with pytest.raises(TypeError, match=f"takes a scikit-learn estimator, {said}"):
        ci.wrap(value)


def test_what_has_a_hook_is_refused():
    model = type("Model", (Bare,), {"__module__": "keras.models"})()
    with pytest.raises(TypeError, match=r"ci.profile\(\) follows that by itself"):
        ci.wrap(model)


def test_two_of_a_class_share_one_class_that_goes_with_them():
    kind = type("Kind", (Bare,), {})
    first, second = ci.wrap(kind()), ci.wrap(kind())
    assert type(first) is type(second)
    gone = weakref.ref(kind)
    del first, second, kind
    gc.collect()  # ours
    gc.collect()  # and then its own
    assert gone() is None


def test_scikit_learn_is_not_imported():
    run_python(
        """
        import sys
        import cirron as ci
        class Own:
            def fit(self):
                return self
        ci.wrap(Own()).fit()
        assert "sklearn" not in sys.modules
        """
    )
