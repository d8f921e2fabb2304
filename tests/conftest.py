"""What holds for all tests."""

import signal

# A shell that runs the tests in the background has them ignore interrupts, and so would all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
