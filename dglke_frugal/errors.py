"""Errors that are the input's fault, and how any error is said in a line."""


class InputError(Exception):
    """Something the user gave cannot be used. The message is one sentence that names what, where and the remedy.

    Commands print it without a traceback and exit with code 2.
    """


def first_line(error: BaseException) -> str:
    """What an error says, without the lines behind it: those of CUDA are advice for programmers."""
    return str(error).partition("\n")[0] or type(error).__name__
