"""The floors of the package: a module imports only from lower floors."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "keras_distill"
FLOORS = [
    [
        "_beam",
        "_replicas",
        "_untuned",
        "_kinds",
        "_errors",
        "_watcher",
        "_compiled",
        "_scripts",
        "_pairs",
    ],
    [
        "_checks",
        "_backend",
        "_files",
        "_text_files",
        "_masks",
        "layer_maps",
    ],
    ["_layers", "_logits", "_sealed", "inputs"],
    ["taps", "recording"],
    ["quantization"],
    [
        *("divergences", "schedules"),
        *("image_taps", "teachers", "data", "export"),
    ],
    ["augment"],
    ["temperatures", "losses", "pruning"],
    ["students"],
    ["cache"],
    ["matching", "_stage", "tasks"],
    ["stages", "distiller"],
    ["callbacks"],
    ["recipes", "gkd", "layouts"],
    ["experiments"],
    ["cli"],
]
FLOOR = {name: i for i, names in enumerate(FLOORS) for name in names}
FILES = sorted(PACKAGE.rglob("*.py"))


def imported(path):
    """Yields (line, module) for each keras_distill module `path` imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith("keras_distill."):
                yield node.lineno, name.split(".")[1]


@pytest.mark.parametrize(
    "path", FILES, ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_imports_point_down(path):
    module = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if module == "__init__":
        return
    up = [
        f"{path}:{line} imports {name}"
        for line, name in imported(path)
        if name != module and FLOOR[name] >= FLOOR[module]
    ]
    assert not up, f"Imports must point to a lower floor: {up}"


def test_every_module_has_a_floor():
    found = {
        path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES
    } - {"__init__", "__main__"}
    assert found == set(FLOOR)


def test_only_the_entry_points_know_the_command_line():
    users = [
        path
        for path in FILES
        if path.relative_to(PACKAGE).parts[0] not in ("cli", "__main__.py")
        and any(name == "cli" for _, name in imported(path))
    ]
    assert not users


@pytest.mark.parametrize(
    "path", FILES, ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_files_stay_readable(path):
    assert len(path.read_text().splitlines()) <= 315, (
        "Split the file along an idea"
    )
