"""The errors of the Cirron API."""


class CirronError(Exception):
    """Base of the errors below."""


class CirronSecretNotFound(CirronError):  # noqa: N818  (the API's name)
    """A secret is missing, cannot be read, or its name is not valid."""


class CirronDependencyError(CirronError):
    """An optional package is not installed."""


class CirronDatasetNotFound(CirronError):  # noqa: N818  (the API's name)
    """A data set does not exist."""


class CirronPlatformRequired(CirronError):  # noqa: N818  (the API's name)
    """Available only on the platform."""


class CirronDataSizeError(CirronError):
    """A call would load more data than its limit allows."""


class CirronYamlError(Exception):
    """A cirron.yaml cannot be read or is not valid."""
