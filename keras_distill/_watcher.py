"""What a run tells while it goes on."""

import contextlib


class Watcher:
    """Listens to a run. This one keeps silent; the command line's prints."""

    def line(self, text):
        """Takes one line of text on what starts or is done.

        Args:
            text: String.
        """

    def start(self, text, phase):
        """Takes the announcement of a phase.

        Args:
            text: String.
            phase: String, the name of the phase, or None at the end.
        """

    @contextlib.contextmanager
    def progress(self, total, unit):
        """Surrounds work of known length.

        Args:
            total: Integer, the number of steps.
            unit: String, what is counted.

        Yields:
            A function of the number of steps done, and perhaps a remark.
        """
        del total, unit

        def advance(steps=1, remark=None):
            del steps, remark

        yield advance
