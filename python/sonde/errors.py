"""What is raised beside ValueError and TypeError; a face translates it into its own classes."""


class MissingPackageError(ImportError):
    """An optional package is needed for what was asked."""

    def __init__(self, package: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package}, which is not installed: run pip install {package}",
            name=package,
        )
