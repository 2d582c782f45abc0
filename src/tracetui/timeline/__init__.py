"""A Trace and a Viewport become rows of (text, style) runs: pure, no terminal, no Textual."""
