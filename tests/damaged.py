"""Damaged and odd inputs, made from seeds, and what is to come of each.

A `Case` makes its input in an empty folder, runs what reads it, and knows by
other means what is right. To add a kind of input, make more cases; `flips`,
`cuts` and `in_its_place` damage any file.
"""

import bz2
import codecs
import contextlib
import dataclasses
import gzip
import io
import json
import lzma
import os
import random
import re
import signal
import socket
import zipfile
from collections.abc import Callable

REFUSED = "refused"
LIMIT = 20  # Seconds: a pipe that is opened, or a loop, would take for ever.
LONGEST_MESSAGE = 1500


@dataclasses.dataclass(frozen=True)
class Case:
    """One input.

    Args:
        name: String.
        make: Callable from an empty folder to what `read` takes.
        read: Callable from that to a result.
        expected: Callable from that to the right result, or to `REFUSED`.
        refusals: Exception classes, exactly these, that refuse an input.
    """

    name: str
    make: Callable
    read: Callable
    expected: Callable
    refusals: tuple = (ValueError, FileNotFoundError, OSError)

    def check(self, folder):
        """Raises `AssertionError` unless it is read right or refused."""
        source = self.make(folder)
        expected = self.expected(source)
        found, message = outcome(self.read, source, self.refusals)
        # Not compared by pytest, which takes long to tell long texts apart.
        right = found == expected
        assert right, f"{str(found)[:500]!r}, {message}, not {expected!r:.500}"


def outcome(read, source, refusals):
    """What `read` gives, or `REFUSED`, and the message.

    Raises:
        AssertionError: The message is not one for people.
        Exception: Whatever is no refusal.
    """
    try:
        with time_limit(LIMIT):
            return read(source), ""
    except refusals as error:
        check_message(error, refusals)
        return REFUSED, str(error)


def check_message(error, kinds):
    """One paragraph, not too long, and not the system's or a library's."""
    message = str(error)
    assert type(error) in kinds
    assert getattr(error, "errno", None) is None
    assert "\n" not in message
    assert 40 < len(message) < LONGEST_MESSAGE


@contextlib.contextmanager
def time_limit(seconds):
    """Raises `TimeoutError` in what takes longer."""

    def ring(*_):
        raise TimeoutError(f"not done after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def flips(data, seed, count=1):
    """`data` with `count` bytes changed."""
    chance = random.Random(seed)
    data = bytearray(data)
    for place in chance.sample(range(len(data)), min(count, len(data))):
        data[place] ^= chance.randrange(1, 256)
    return bytes(data)


def cuts(data, seed):
    """`data` without its end."""
    return data[: random.Random(seed).randrange(len(data))]


def without_a_part(data, seed):
    chance = random.Random(seed)
    start = chance.randrange(len(data))
    return data[:start] + data[start + chance.randrange(1, 80) :]


def with_a_part_twice(data, seed):
    chance = random.Random(seed)
    start = chance.randrange(len(data))
    return data[:start] + data[start : start + chance.randrange(1, 80)] + data


ODD = [b'"', b",", b"\t", b"\r", b"\n", b"\0", b"\xff", b"\x1a", b"\\", b"'"]
ODD += [c.encode() for c in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\ufeff\u200b"]
ODD += [b"\xed\xa0\x80", b'""', b"\n\n", b"\r\r\n", b'"\n"', b',"', b'",']


def with_odd_bytes(data, seed):
    chance = random.Random(seed)
    place = chance.randrange(len(data) + 1)
    return data[:place] + chance.choice(ODD) + data[place:]


def with_mixed_ends(data, seed):
    chance = random.Random(seed)
    return re.sub(
        rb"\n", lambda _: chance.choice([b"\n", b"\r\n", b"\r"]), data
    )


def zipped(data):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("train", data)
    return stream.getvalue()


RANDOM = {
    "a flipped byte": flips,
    "20 flipped bytes": lambda data, seed: flips(data, seed, 20),
    "cut": cuts,
    "a part missing": without_a_part,
    "a part twice": with_a_part_twice,
    "odd bytes": with_odd_bytes,
    "mixed line ends": with_mixed_ends,
}
FIXED = {
    "whole": lambda data: data,
    "empty": lambda data: b"",
    "a mark alone": lambda data: codecs.BOM_UTF8,
    "blank lines alone": lambda data: b"\n \r\n\t\n",
    "the first line alone": lambda data: data.split(b"\n")[0],
    "blank lines between": lambda data: data.replace(b"\n", b"\n\n"),
    "no last line end": lambda data: data[:-1],
    "old line ends": lambda data: data.replace(b"\n", b"\r"),
    "UTF-8 with its mark": lambda data: codecs.BOM_UTF8 + data,
    "two marks": lambda data: codecs.BOM_UTF8 * 2 + data,
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "UTF-16, the other way": lambda data: (
        codecs.BOM_UTF16_BE + data.decode().encode("utf-16-be")
    ),
    "UTF-16 without its mark": lambda data: data.decode().encode("utf-16-le"),
    "half of UTF-16": lambda data: data.decode().encode("utf-16")[:-1],
    "UTF-32": lambda data: data.decode().encode("utf-32"),
    "Latin 1": lambda data: data + "caf\xe9,no\n".encode("latin1"),
    "surrogates": lambda data: data + b"\xed\xa0\x80,no\n",
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zip": zipped,
    "NUL at the end": lambda data: data + b"\0" * 512,
    "semicolons": lambda data: data.replace(b",", b";").replace(b"\t", b";"),
    "a field too many": lambda data: data + b'"a","b","c"\na\tb\tc\n',
    "a quote": lambda data: data + b'"never closed,no\n"never\tno\n',
    "another header": lambda data: b"x" + data,
    "the header twice": lambda data: re.sub(
        rb"^(\w+)([,\t])\w+", rb"\1\2\1", data
    ),
    "binary": lambda data: random.Random(0).randbytes(4000),
    "brackets": lambda data: data + b"[" * 100_000,
    "a number": lambda data: data + b'{"prompt": ' + b"9" * 5000 + b"}\n",
}


def pipe(path):
    os.mkfifo(path)


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as one:
        # Its path has a limit of about 100 characters.
        here = os.getcwd()
        os.chdir(path.parent)
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


# What may be where a file is expected.
PLACES = {
    "nothing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "a pipe": pipe,
    "a socket": unix_socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a file above it": lambda path: path.parent.write_text("a file"),
}


def in_its_place(place, path):
    """Puts one of `PLACES` where the file `path` is, or would be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if place == "a file above it":
        path = path / "below"
    PLACES[place](path)
    return path


# ---- What files of text hold, read by other means than the package's. ----


def decoded(data):
    """The text in `data`, or None for what is not to be read."""
    marks = {codecs.BOM_UTF8: "utf-8"}
    marks |= {codecs.BOM_UTF16_LE: "utf-16-le"}
    marks |= {codecs.BOM_UTF16_BE: "utf-16-be"}
    marks |= {codecs.BOM_UTF32_LE: "utf-32-le"}
    marks |= {codecs.BOM_UTF32_BE: "utf-32-be"}
    encoding, begin = "utf-8", 0
    for mark, name in marks.items():  # Longer marks come after shorter ones.
        if data.startswith(mark):
            encoding, begin = name, len(mark)
    try:
        text = data[begin:].decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def records(text, delimiter, quotes):
    """Lists of fields by RFC 4180; None where its quotes are broken."""
    rows, row, field, state = [], [], "", "start"
    ends = ("\n", "\r", "\r\n")
    text += "" if text.endswith(ends) else "\n"
    for char in re.findall("\r\n|.", text, re.DOTALL):
        if state == "quoted":
            state = "closed" if char == '"' else state
            field += "" if char == '"' else char
        elif state == "closed" and char == '"':
            field, state = field + char, "quoted"
        elif char == delimiter or char in ends:
            row.append(field)
            if char in ends and (row != [""] or state == "closed"):
                rows.append(row)
            row = [] if char in ends else row
            field, state = "", "start"
        elif state == "closed":
            return None
        elif state == "start" and char == '"' and quotes:
            state = "quoted"
        else:
            field, state = field + char, "plain"
    return None if state != "start" or row else rows


def table(text, delimiter, columns):
    """The columns of a table, or None for what is not to be read."""
    found = records(text, delimiter, quotes=delimiter == ",")
    if not found or len(found) < 2:
        return None
    header, *rows = found
    if any(header.count(column) != 1 for column in columns):
        return None
    if any(len(row) != len(header) for row in rows):
        return None
    return [[row[header.index(column)] for column in columns] for row in rows]


def labelled(text, delimiter):
    return with_labels(table(text, delimiter, ("text", "label")))


def with_labels(rows):
    rows = [(text.strip(), label.strip()) for text, label in rows or ()]
    bad = ("nan", "<na>")
    if not rows or any(not t or la.lower() in bad for t, la in rows):
        return REFUSED
    missing = ("", "-1", "-1.0")
    return [(text, None if la in missing else la) for text, la in rows]


def unlabelled(text, delimiter):
    rows = [row[0].strip() for row in table(text, delimiter, ("text",)) or ()]
    return rows if rows and all(rows) else REFUSED


def prompts(text, delimiter):
    rows = table(text, delimiter, ("prompt", "completion")) or ()
    if not rows or any(not prompt.strip() for prompt, _ in rows):
        return REFUSED
    return [(prompt, completion or None) for prompt, completion in rows]


def lines(text, _):
    found = re.split("\r\n|\r|\n", text)
    return [line.strip() for line in found if line.strip()] or REFUSED


def dicts(text):
    """The object of each line, or None for what is not to be read."""
    found = []
    for line in re.split("\r\n|\r|\n", text):
        if not line.strip():
            continue
        try:
            found.append(json.loads(line))
            json.dumps(found[-1], ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            return None
    return found if all(isinstance(row, dict) for row in found) else None


def objects(text, _):
    rows = []
    for row in dicts(text) or ():
        prompt, completion = row.get("prompt"), row.get("completion")
        known = isinstance(completion, str | None)
        if not (isinstance(prompt, str) and prompt.strip() and known):
            return REFUSED
        rows.append((prompt, completion or None))
    return rows or REFUSED


def labelled_objects(text, _):
    rows = dicts(text) or ()
    if not {"text", "label"} <= {key for row in rows for key in row}:
        return REFUSED
    return with_labels(
        [(row.get("text") or "", row.get("label") or "") for row in rows]
    )
