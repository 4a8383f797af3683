"""What a person did wrong, said in one sentence."""


class InputError(ValueError):
    """Wrong input: the message says what was given, what was expected and what to do.

    The command line prints it without a traceback and exits with 2; anything else is our own fault and keeps its traceback.
    """
