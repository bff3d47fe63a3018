"""Estimators, data and a way to write spans down, for the tests of ci.wrap."""

import pickle

import cirron as ci
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import StandardScaler

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
    """An estimator by its methods alone, without the base class."""

    def fit(self, x):
        self.seen = len(x)
        return self


def make_nested():
    union = FeatureUnion([("scaled", StandardScaler()), ("reduced", PCA(2)), ("off", "drop")])
    return Pipeline([("union", union), ("asis", "passthrough"), ("model", Ridge())])


SCALED = "fit_transform:StandardScaler(fit:StandardScaler(partial_fit:StandardScaler) "
SCALED += "transform:StandardScaler)"


def through_pickle(model, protocol=pickle.HIGHEST_PROTOCOL):
    return pickle.loads(pickle.dumps(model, protocol))
