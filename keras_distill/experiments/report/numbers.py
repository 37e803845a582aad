"""Numbers as people read them in a report."""


def percent(spread, digits=1):
    """Mean and standard deviation of shares, in per cent.

    Example:

    >>> percent({"mean": 0.7, "sd": 0.1414}), percent({"mean": 0.5, "sd": None})
    ('70.0 ± 14.1', '50.0')
    """
    return plus_minus(
        {
            k: None if spread[k] is None else 100 * spread[k]
            for k in ("mean", "sd")
        },
        digits,
    )


def plus_minus(spread, digits=1):
    """Mean and standard deviation, where there is one; `failed` for none."""
    if spread["mean"] is None:
        return "failed"
    mean = f"{spread['mean']:.{digits}f}"
    return (
        mean if spread["sd"] is None else f"{mean} ± {spread['sd']:.{digits}f}"
    )


def count(number, noun):
    """A number of things.

    Example:

    >>> count(1, "seed"), count(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def share(value):
    """A share of 1 in per cent; empty for None.

    Example:

    >>> share(0.5), share(None)
    ('50.0', '')
    """
    return "" if value is None else f"{100 * value:.1f}"


def further(title, spread):
    """A further score as its column's title says it: in per cent, or plain.

    Example:

    >>> further("MCC", {"mean": 0.7, "sd": None})
    '0.700'
    """
    if title.endswith("%"):
        return percent(spread)
    return plus_minus(spread, digits=3)
