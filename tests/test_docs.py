"""The Python blocks of docs/*.md run, and their links lead somewhere."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def blocks(page):
    """Yields (line, code) of each Python block."""
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        yield text.count("\n", 0, found.start(1)), found.group(1)


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        yield plain.replace(" ", "-")


@pytest.mark.large
@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(blocks(p))], ids=lambda page: page.stem
)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "docs"}
    for line, code in blocks(page):
        # Padded, so that a traceback shows the page's own line numbers.
        source = "\n" * line + code
        exec(compile(source, str(page), "exec"), namespace)


@pages
def test_blocks_are_closed(page):
    text = page.read_text(encoding="utf-8")
    fences = re.findall(r"^```.*$", text, re.MULTILINE)
    assert all(fence != "```" for fence in fences[::2]), "no language"
    assert set(fences[1::2]) <= {"```"}, "not closed"


@pages
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        linked = page.parent / name if name else page
        assert linked.is_file(), target
        if anchor:
            assert anchor in anchors(linked), target
