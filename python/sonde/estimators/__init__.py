"""scikit-learn estimators whose calls are scopes.

``wrap`` returns a second object that stands for the estimator it was given: what is fitted, set or
read through one is fitted, set or read on the other. Mostly that is a twin, of a class made from
the estimator's own, with the same ``__dict__`` (``twins``). An estimator whose state is not
Python's has a proxy instead (``proxies``).
"""

from __future__ import annotations

from sonde.estimators.wrapped import Wrapped, call_of_wrap, standing_for, why_not
from sonde.estimators.wrapped import (
    attach as attach,
)  # pickles of earlier versions look for it here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from sonde.face import Face

    T = TypeVar("T")


def wrap(estimator: T, speaker: Face | None = None) -> T:
    """A scikit-learn estimator whose calls are scopes; it works on the estimator that is given.

    ``fit``, ``predict``, ``transform``, ``score`` and their relatives run inside
    ``scope(<method>, estimator=<class>)``, and so do those of the steps of a pipeline and of the
    transformers of a union. Everything else is the estimator's own: fitting what is returned fits
    the estimator that was given. Calls on the given estimator itself are not recorded. Wrapping it
    again returns the same object. ``speaker`` is the face of the API that the program called.
    """
    if isinstance(estimator, Wrapped):
        return estimator
    if (problem := why_not(estimator, speaker)) is not None:
        raise TypeError(f"{call_of_wrap(speaker)}() takes a scikit-learn estimator, {problem}")
    wrapped: Any = standing_for(estimator)
    if wrapped is None:
        from sonde.estimators.twins import make_twin

        wrapped = make_twin(estimator)
    found: T = wrapped
    return found


def blank(original: type) -> Any:
    """An object that will stand for an estimator of this class, once it is attached to one."""
    from sonde.estimators.twins import timed_class

    made = timed_class(original)
    return object.__new__(made)


Wrapped._sonde_wrap = wrap
Wrapped._sonde_blank = blank
