"""The screens: what fills the terminal."""
