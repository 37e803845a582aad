"""What the user sees: lines, progress bars, tables."""

import contextlib

import rich.box
import rich.console
import rich.progress
import rich.table

from keras_distill._watcher import Watcher


class Screen(Watcher):
    """Standard output for what happens, standard error for problems."""

    def __init__(self):
        self._out = rich.console.Console(highlight=False)
        self._error = rich.console.Console(stderr=True, highlight=False)
        self.phase = None

    def line(self, text):
        """Prints one line as it is."""
        self._out.print(text, markup=False, soft_wrap=True)

    def start(self, text, phase):
        """Announces a phase; None at the end."""
        self.phase = phase
        if text is not None:
            self.line(text)

    def problem(self, text):
        """Prints a paragraph on standard error."""
        self._error.print(text, markup=False, soft_wrap=True)

    @contextlib.contextmanager
    def progress(self, total, unit):
        """A bar that disappears when done; in a log, the remarks as lines.

        Args:
            total: Integer, the number of steps.
            unit: String, what is counted.

        Yields:
            A function of the number of steps done, and perhaps a remark.
        """
        columns = (
            rich.progress.TextColumn("     "),
            rich.progress.BarColumn(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TextColumn(unit),
            rich.progress.TimeRemainingColumn(),
            rich.progress.TextColumn("{task.fields[remark]}"),
        )
        with rich.progress.Progress(
            *columns,
            console=self._out,
            transient=True,
            disable=not self._out.is_terminal,
        ) as bar:
            task = bar.add_task("", total=total, remark="")

            def advance(steps=1, remark=None):
                if remark is None:
                    bar.update(task, advance=steps)
                elif self._out.is_terminal:
                    bar.update(task, advance=steps, remark=remark)
                else:
                    self.line(f"      {remark}")

            yield advance

    def table(self, title, columns, rows, words=1):
        """Prints a table; where it is too wide, its words are broken.

        Args:
            title: String.
            columns: Column titles.
            rows: Lists of strings.
            words: Integer, how many columns hold words; the others hold
                numbers.
        """
        table = rich.table.Table(
            title=title,
            title_justify="left",
            box=rich.box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
        )
        for position, column in enumerate(columns):
            if position < words:
                table.add_column(column, overflow="fold")
            else:
                table.add_column(column, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        self._out.print(table)
