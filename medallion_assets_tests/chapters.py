"""The chapters in ``docs/notebooks``, run from end to end in a kernel of their own.

``python -m medallion_assets_tests.chapters`` runs them all and writes what each cell showed into them.
"""

import os
import re
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"
COLOURS = re.compile(r"\x1b\[[\d;]*m")
"""What a stored page cannot show."""

SECONDS = re.compile(r"\b[\d,]+\.\d(?= s\b| rows per second)")
"""What differs from run to run."""


def chapters() -> list[Path]:
    """Return the notebooks, by name."""
    return sorted(FOLDER.glob("*.ipynb"))


def executed(chapter: Path, cache: str = "") -> Any:
    """Return a chapter with what its cells show when they run now.

    Args:
        chapter: The notebook.
        cache: Where Spark's jars are; as everywhere else where it is empty.

    Raises:
        CellExecutionError: A cell failed.
    """
    notebook = nbformat.read(chapter, as_version=4)
    told = {name: value for name, value in os.environ.items() if not name.startswith("MEDALLION_")}
    told |= {"COLUMNS": "200"} | ({"MEDALLION_CACHE": cache} if cache else {})
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute(env=told)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [_as_stored(output) for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def shown(notebook: Any) -> list[tuple[str, str]]:
    """Return each code cell with the text it shows."""
    code = (cell for cell in notebook.cells if cell.cell_type == "code")
    return [(cell.source, "".join(_text(output) for output in cell.outputs)) for cell in code]


def _as_stored(output: Any) -> Any:
    if output.output_type == "stream":
        output.text = SECONDS.sub("…", COLOURS.sub("", output.text))
    return output


def _text(output: Any) -> str:
    return output.text if output.output_type == "stream" else output.data["text/plain"]


if __name__ == "__main__":
    for one in chapters():
        print(one.name, flush=True)
        nbformat.write(executed(one), one)
