"""The errors of the Cirron API."""


class CirronError(Exception):
    """Base of the errors below."""


class CirronSecretNotFound(CirronError):  # noqa: N818  (the API's name)
    """A secret is missing, cannot be read, or its name is not valid."""


class CirronDependencyError(CirronError):
    """An optional package is not installed."""
