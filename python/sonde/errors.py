"""Errors besides ValueError and TypeError. A face translates them into its own classes."""


class MissingPackageError(ImportError):
    """A package that is not installed is needed."""

    def __init__(self, package: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package}, which is not installed: run pip install {package}",
            name=package,
        )
