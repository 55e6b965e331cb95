"""Errors that are the input's fault, not the program's."""


class InputError(Exception):
    """Something the user gave cannot be used. The message is one sentence that names what, where and the remedy.

    Commands print it without a traceback and exit with code 2.
    """
