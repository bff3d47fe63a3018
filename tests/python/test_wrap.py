"""ci.wrap: a scikit-learn estimator whose calls are scopes, and which is otherwise unchanged."""

import gc
import inspect
import weakref
from concurrent.futures import ThreadPoolExecutor

import cirron as ci
import pytest
from child_process import run_python

sklearn = pytest.importorskip("sklearn")

from sklearn.base import (  # noqa: E402
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.cluster import KMeans  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.ensemble import RandomForestClassifier  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier  # noqa: E402
from sklearn.pipeline import Pipeline, make_pipeline  # noqa: E402
from sklearn.preprocessing import MinMaxScaler, StandardScaler  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402
from sklearn.utils import estimator_html_repr  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402
from sklearn.utils.validation import check_is_fitted, has_fit_parameter  # noqa: E402
from wrapped_estimators import (  # noqa: E402
    SCALED,
    Bare,
    Counter,
    Unchanged,
    X,
    Y,
    make_nested,
    sketch,
)

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
            # A list of wrapped steps that is set is returned as another list of wrapped steps.
            if not (isinstance(candidate, Pipeline) and check["check_name"] == "check_set_params")
        }

    assert results(ci.wrap(estimator)) == results(estimator)


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
    with pytest.raises(TypeError, match=r"ci.profile\(\) records it without a wrapper"):
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
