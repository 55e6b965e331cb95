"""A backend for DGL-KE: embedding tables in host memory, hot rows cached per device, updates flushed by next use."""


def __getattr__(name):
    if name == "load":  # on first use, so that the import stays light
        from .inference.run import Run

        return Run.load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
