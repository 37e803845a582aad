"""SVG whose colours and fonts are those of the page around it."""

import io
import re

# matplotlib draws with these; the page puts its own colours in their place.
INK, MUTED, GRID, PAPER = "#010101", "#020202", "#030303", "#040404"
SERIES = ("#0a0a01", "#0a0a02", "#0a0a03", "#0a0a04", "#0a0a05", "#0a0a06")
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--rule",
    PAPER: "--paper",
    **{color: f"--series-{i}" for i, color in enumerate(SERIES)},
}
STYLE = {
    "svg.fonttype": "none",
    "font.size": 9.5,
    "axes.labelsize": 9.5,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.5,
    "lines.solid_capstyle": "round",
    "grid.color": GRID,
    "grid.linewidth": 0.6,
}


def style():
    """A context in which figures look as on the page."""
    import matplotlib

    return matplotlib.rc_context(STYLE)


def figure_of(width, height):
    """A figure and its axes, sizes in inches; one unit is 72 px on a page."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def svg(figure, label):
    """The figure as an SVG element that takes the page's colours."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": label}):
        figure.savefig(
            buffer, format="svg", transparent=True, metadata={"Date": None}
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)
    text = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", text)
    for color, variable in VARIABLES.items():
        text = text.replace(color, f"var({variable})")
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
