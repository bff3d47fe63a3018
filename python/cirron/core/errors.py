"""``cirron.core.errors``: all error classes, under the path that programs import them from."""

from cirron.errors import (
    CirronDatasetNotFound,
    CirronDataSizeError,
    CirronDependencyError,
    CirronError,
    CirronPlatformRequired,
    CirronSecretNotFound,
)

__all__ = [
    "CirronDataSizeError",
    "CirronDatasetNotFound",
    "CirronDependencyError",
    "CirronError",
    "CirronPlatformRequired",
    "CirronSecretNotFound",
]
