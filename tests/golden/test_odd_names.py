"""Names of kernels that are nearly those that libraries give: a word less, a word twice, another number."""

import random
import re
from pathlib import Path

import pytest

from tracetui.analysis.names.kernel_names import decode

NAMES = (Path(__file__).parent / "kernel_names.txt").read_text(encoding="utf-8").splitlines()
WORD = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9]+")
PARTS = 8


def read(name: str) -> str:
    """What is read from a name, but for the name itself."""
    found = decode(name)
    told = {key: getattr(found, key) for key in found.__struct_fields__ if key != "name"}
    return " ".join(f"{key}={value}" for key, value in told.items() if value not in (None, "", (), False))


def odd(name: str, rng: random.Random) -> str:
    words = WORD.findall(name)
    at = rng.randrange(len(words))
    way = rng.randrange(6)
    if way == 0:
        del words[at]
    elif way == 1:
        words.insert(at, words[at])
    elif way == 2:
        del words[at:]
    elif way == 3:
        words[at] = words[at].swapcase()
    elif way == 4:
        words[at] = re.sub(r"\d+", lambda m: str(int(m[0][:9]) + 1), words[at])
    else:
        other = rng.randrange(len(words))
        words[at], words[other] = words[other], words[at]
    return "".join(words)


@pytest.mark.parametrize("part", range(PARTS))
def test_odd_names(part, golden):
    """Kept are those that are read in another way than the name that they come from."""
    lines = []
    for number, name in enumerate(NAMES[part::PARTS]):
        rng = random.Random(f"{part} {number}")
        told, seen = read(name), set[str]()
        for _ in range(40):
            made = odd(name, rng)
            if made and (said := read(made)) != told and said not in seen and len(seen) < 2:
                seen.add(said)
                lines.append(f"{made[:400]}\n  {said}")
    golden("odd_names", f"part {part}", "\n".join(lines))
