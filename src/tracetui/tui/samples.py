"""The sample traces that come with tracetui."""

from __future__ import annotations

from pathlib import Path

ENDINGS = (".json.gz", ".json")


def sample_folder() -> Path | None:
    """Where they lie: in the installed package, else at the root of a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "sample_traces", package.parent.parent / "sample_traces"):
        if folder.is_dir():
            return folder
    return None


def samples() -> dict[str, Path]:
    """The bundled samples by name: the path below their folder, without its ending."""
    folder = sample_folder()
    if folder is None:
        return {}
    found = {}
    for path in sorted(folder.rglob("*.json*")):
        ending = next((e for e in ENDINGS if path.name.endswith(e)), None)
        if ending and not path.name.endswith((".meta.json", ".averages.json")):
            found[str(path.relative_to(folder)).removesuffix(ending)] = path
    return found
