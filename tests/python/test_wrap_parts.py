"""ci.wrap: the parts of pipelines, unions and column transformers."""

import pickle

import cirron as ci
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.compose import ColumnTransformer  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge  # noqa: E402
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline  # noqa: E402
from sklearn.preprocessing import MinMaxScaler, StandardScaler  # noqa: E402
from sklearn.utils.validation import check_is_fitted  # noqa: E402
from wrapped_estimators import (  # noqa: E402
    SCALED,
    X,
    Y,
    make_nested,
    sketch,
    through_pickle,
)

# -- parts --


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
