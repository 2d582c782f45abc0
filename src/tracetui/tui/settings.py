"""The user's settings: a TOML file, every line of it optional.

theme = "light"            # dark, light, high-contrast, color-blind
ascii = true               # no characters beyond ASCII
pane = "gaps"              # the pane that is open at the start; "none"
minimum_gap = "5us"        # g skips shorter gaps
frames_per_second = 20     # at most; 0 for no limit. By default 20 over SSH, else no limit
[keys]
zoom_in = "i"              # by the action's name in `tracetui.tui.bindings`
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from tracetui.core.safe_text import plain
from tracetui.tui.bindings import ACTIONS, key_text, rebound
from tracetui.tui.panes import PANES

THEME_NAMES = ("dark", "light", "high-contrast", "color-blind")


class SettingsError(ValueError):
    """What is wrong with the settings, in one safe line."""


class Settings(Struct, frozen=True):
    """All settings, with their defaults."""

    theme: str | None = None
    """None: light or dark, to match the terminal's background if that is known."""
    ascii: bool = False
    pane: str = "overview"
    minimum_gap: int = 0
    """Nanoseconds."""
    frames_per_second: int | None = None
    """The most frames per second; 0 for no limit. None: limited over SSH only."""
    keys: Mapping[str, str] = field(default_factory=dict)
    quiz: bool = False
    """Whether the verdict is covered at first: only from the command line."""


def settings_file() -> Path:
    """The settings file; `TRACETUI_CONFIG` overrides it."""
    named = os.environ.get("TRACETUI_CONFIG")
    if named:
        return Path(named)
    from platformdirs import user_config_path

    return user_config_path("tracetui", appauthor=False) / "config.toml"


def load_settings(file: Path | None = None) -> Settings:
    """The settings, or the defaults if there is no file. Raises SettingsError."""
    file = file or settings_file()
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{plain(str(file))}: cannot be read ({plain(str(error))})") from None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return parse(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{plain(str(file))}: {plain(str(error))}") from None
    except SettingsError as error:
        raise SettingsError(f"{plain(str(file))}: {error}") from None


def parse(values: Mapping[str, Any]) -> Settings:
    """The settings in decoded TOML. Raises SettingsError."""
    known = {"theme", "ascii", "pane", "minimum_gap", "frames_per_second", "keys"}
    for key in values:
        if key not in known:
            raise SettingsError(f"no setting {plain(key)!r}; the settings are {', '.join(sorted(known))}")
    if values.get("theme") == "colour-blind":
        values = {**values, "theme": "color-blind"}
    theme = _one_of(values, "theme", THEME_NAMES, None)
    pane = _one_of(values, "pane", (*(p.key for p in PANES), "none"), "overview")
    ascii = values.get("ascii", False)
    if not isinstance(ascii, bool):
        raise SettingsError("ascii must be true or false")
    frames = values.get("frames_per_second")
    if frames is not None and (isinstance(frames, bool) or not isinstance(frames, int) or frames < 0):
        raise SettingsError("frames_per_second must be a whole number, 0 for no limit")
    gap = _gap(values.get("minimum_gap", 0))
    return Settings(theme, ascii, pane or "overview", gap, frames, _keys(values))


def _one_of(values: Mapping[str, Any], key: str, choices: tuple[str, ...], default: str | None) -> str | None:
    value = values.get(key, default)
    if value is not None and value not in choices:
        raise SettingsError(f"{key} must be one of {', '.join(choices)}; got {plain(repr(value), 60)}")
    return None if value is None else str(value)


def _gap(value: Any) -> int:
    from tracetui.session.query import QueryError, parse_time

    try:
        return max(0, int(parse_time(str(value))))
    except QueryError as error:
        raise SettingsError(f"minimum_gap: {error}") from None


_BRITISH = {"centre": "center", "pane_maximise": "pane_maximize"}
"""What these actions were called before."""


def _keys(values: Mapping[str, Any]) -> dict[str, str]:
    keys = values.get("keys", {})
    if not isinstance(keys, Mapping):
        raise SettingsError('keys must be a table: [keys], then lines such as zoom_in = "i"')
    keys = {_BRITISH.get(id, id): key for id, key in keys.items()}
    ids = {a.id for a in ACTIONS}
    for id, key in keys.items():
        if id not in ids:
            raise SettingsError(f"keys: no action {plain(str(id), 60)!r}")
        if not isinstance(key, str) or not key.strip():
            raise SettingsError(f"keys: {id} needs a key")
    owners: dict[str, str] = {}
    for action in rebound(keys):
        for key in action.keys:
            if key in owners:
                raise SettingsError(f"keys: {key_text(key)} is both {owners[key]} and {action.id}")
            owners[key] = action.id
    return dict(keys)
