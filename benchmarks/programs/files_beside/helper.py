"""What main.py imports."""


def numbers(path):
    with open(path) as file:
        return [float(line) for line in file]
