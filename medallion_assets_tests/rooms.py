"""The rooms of the package and who imports whom, read from the code.

``python -m medallion_assets_tests.rooms`` draws them into docs/architecture.md; a test fails when the picture
there is not the code's.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import medallion_assets

HOUSE = Path(medallion_assets.__file__).parent
PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"
BEGIN, END = "<!-- rooms: made by `make rooms` -->\n", "<!-- end of rooms -->\n"


def room(file: Path) -> str:
    """Return the folder or module directly below the package that a file belongs to."""
    return file.relative_to(HOUSE).with_suffix("").parts[0]


def imports(file: Path) -> Iterator[str]:
    """Return the modules a file imports, also those it imports inside of functions."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def edges() -> dict[str, set[str]]:
    """Return, by room that is a folder, the other folders it imports from."""
    found: dict[str, set[str]] = {}
    for file in sorted(HOUSE.glob("*/**/*.py")):
        names = (name.split(".") for name in imports(file))
        below = {parts[1] for parts in names if parts[0] == HOUSE.name and len(parts) > 1}
        below = {name for name in below if (HOUSE / name).is_dir()}
        found[room(file)] = found.get(room(file), set()) | (below - {room(file)})
    return found


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return every room that a room imports from, directly or through others."""
    return set().union(*({name} | reachable(graph, name) for name in graph[start]))


def picture() -> str:
    """Return the rooms as a mermaid graph; an arrow that other arrows imply is left out."""
    graph = edges()
    lines = ["```mermaid", "graph TD"]
    for name in sorted(graph):
        tree = ast.parse((HOUSE / name / "__init__.py").read_text("utf-8"))
        what = (ast.get_docstring(tree) or "").splitlines()[0].rstrip(".").replace('"', "'")
        lines.append(f'  {name}["<b>{name}</b><br/>{what}"]')
    for name in sorted(graph):
        implied = set().union(*(reachable(graph, below) for below in graph[name]))
        lines += [f"  {name} --> {below}" for below in sorted(graph[name] - implied)]
    return "\n".join([*lines, "```", ""])


def drawn(text: str) -> str:
    """Return the page with today's picture between its two marks."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + picture() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text("utf-8")), "utf-8")
