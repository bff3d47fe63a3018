"""ci.wrap: a scikit-learn estimator whose calls are scopes, and that is otherwise what it was."""

import copy
import gc
import inspect
import io
import pickle
import weakref

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
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline  # noqa: E402
from sklearn.preprocessing import MinMaxScaler, StandardScaler  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402
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


def test_pipeline_that_was_given_is_left_alone(memory):
    pipeline = make_nested()
    union = pipeline["union"]
    before = [*pipeline.steps, *union.transformer_list]
    lists = pipeline.steps, union.transformer_list
    ci.wrap(pipeline).fit(X, Y)
    assert (pipeline.steps, union.transformer_list) == lists
    assert all(
        now is then
        for now, then in zip([*pipeline.steps, *union.transformer_list], before, strict=True)
    )
    assert type(pipeline) is Pipeline
    assert type(pipeline["model"]) is Ridge
    assert type(union.transformer_list[0][1]) is StandardScaler
    with pytest.raises(NotFittedError):
        check_is_fitted(pipeline)
    ci.flush()
    count = ci.trace(format="dict")["span_count"]
    pipeline.fit(X, Y)
    assert ci.trace(format="dict")["span_count"] == count


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


def test_parameters():
    model = ci.wrap(RandomForestClassifier(n_estimators=5))
    assert model.get_params() == RandomForestClassifier(n_estimators=5).get_params()
    assert model.set_params(n_estimators=7) is model
    assert model.n_estimators == 7
    pipeline = ci.wrap(make_nested()).set_params(model__alpha=3.0)
    assert pipeline.get_params()["model__alpha"] == 3.0


def test_estimator_that_was_given_is_left_alone():
    plain = Counter(start=2)
    before = dict(vars(plain))
    model = ci.wrap(plain).fit(X)
    model.start = 9
    assert vars(plain) == before
    assert type(plain) is Counter


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


@pytest.mark.parametrize("estimator", [Ridge(), StandardScaler(), KMeans(n_init=1)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_finds_no_difference(estimator):
    def results(candidate):
        return {
            (check["check_name"], check["status"])
            for check in check_estimator(candidate, on_fail=None)
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


# -- what may be wrapped --


def test_wrapped_twice_is_wrapped_once(memory):
    model = ci.wrap(Counter())
    assert ci.wrap(model) is model
    pipeline = ci.wrap(make_pipeline(ci.wrap(StandardScaler()), Ridge()))
    pipeline.fit(X, Y)
    assert sketch() == f"fit:Pipeline({SCALED} fit:Ridge)"


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
