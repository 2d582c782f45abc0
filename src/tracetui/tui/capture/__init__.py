"""Capturing from within the app: the form that makes the options, and the screen that follows a capture."""
