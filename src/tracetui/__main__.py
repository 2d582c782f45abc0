"""`python -m tracetui`."""

from tracetui.cli import main

if __name__ == "__main__":
    main()
