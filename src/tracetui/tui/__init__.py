"""The Textual app: screens, widgets and key bindings; the only place that imports Textual."""
