"""What a forked process does, for a test."""
import os
import signal


def in_a_fork(act):
    """What a forked process answers, or the name of its signal if it does not answer within a minute."""
    answers, answer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(60)
        try:
            messages = act()
        except BaseException as error:
            messages = f"{type(error).__name__}: {error}"
        os.write(answer, messages.encode())
        os._exit(0)
    os.close(answer)
    with open(answers) as file:
        messages = file.read()
    status = os.waitpid(child, 0)[1]
    return messages if status == 0 else signal.Signals(os.WTERMSIG(status)).name
