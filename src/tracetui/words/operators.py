"""Explains PyTorch's operators. Each name belongs to a group, whose sentence says what takes its time."""

from __future__ import annotations

import re
from functools import lru_cache

from tracetui.words.texts import patterns, sections

IN_PLACE = (
    "In place: the result overwrites the input, so it takes no new memory; autograd raises an error if "
    "it still needs the old values."
)
VIEW_IN_PLACE = "In place: it changes the tensor's own sizes and strides, metadata only."
_BACKWARD = re.compile(r"(\w{1,100}?)Backward\d{0,3}")


def about(group: str) -> str:
    """The sentence on all operators of a group of `operators.md`."""
    return sections("operators")[group].about


def operator(name: str) -> str | None:
    """What an operator of this name does; None if that is not known."""
    if name.startswith("aten::"):
        own = _aten(name[6:])
        if own is not None:
            return own
    if text := sections("operators")["others"].texts.get(name):
        return text
    if backward := _BACKWARD.fullmatch(name):
        return _backward(backward[1])
    return _of("families", name) or compiled(name)


def compiled(name: str) -> str | None:
    """What a call of compiled code is, whether recorded as an operator or as an annotation; None for
    others."""
    return _of("compiled", name)


def _of(section: str, name: str) -> str | None:
    found = ((pattern.match(name[:300]), text) for pattern, text in patterns("operators", section))
    return next((text.format(*match.groups()) for match, text in found if match), None)


def is_view(name: str) -> bool:
    """Whether an operator of this name makes a view of the same memory, and never copies."""
    return about("views") in (operator(name) or "")


def unknown(name: str) -> str:
    """What can be said about an operator that `operator` does not know."""
    space, colons, _ = name.partition("::")
    if name.startswith("aten::"):
        return (
            "One of PyTorch's operators; it has the name of the Python function. Its time is CPU time: what "
            "it launches runs on the GPU later."
        )
    if colons and space.isidentifier():
        return (
            f"An operator of {space}, a library that registers ops with PyTorch. Its time is CPU time: "
            "what it launches runs on the GPU later."
        )
    return (
        "An operation from outside the operator libraries, such as the forward of a "
        "torch.autograd.Function. Its time is CPU time: what it launches runs on the GPU later."
    )


def backend(name: str) -> str | None:
    """The attention backend that an operator stands for."""
    match = re.fullmatch(r"aten::_scaled_dot_product_(flash|efficient|cudnn)_attention\w*", name)
    if match:
        return {"flash": "flash", "efficient": "memory-efficient", "cudnn": "cuDNN"}[match[1]]
    return "math" if name.startswith("aten::_scaled_dot_product_attention_math") else None


@lru_cache(maxsize=16)
def _known() -> dict[str, str]:
    """The operators of aten, without that prefix."""
    groups = sections("operators").values()
    found = {
        name: f"{text} {sentence}" for sentence, texts in groups if sentence for name, text in texts.items()
    }
    return found | sections("operators")["aten"].texts


def _aten(name: str) -> str | None:
    known = _known()
    if name in known:
        return known[name]
    base = name[:-1] if name.endswith("_") and not name.endswith("__") else ""
    if base in known:
        return f"{_first(known[base])} {VIEW_IN_PLACE if about('views') in known[base] else IN_PLACE}"
    if name.endswith("_backward") and (forward := known.get(name[:-9])):
        kernels = (
            about("elementwise")
            if about("elementwise") in forward
            else "On a GPU it takes one kernel or several."
        )
        return f"The gradient of {name[:-9]}, for the backward pass. {kernels}"
    return None


def _first(text: str) -> str:
    """The first sentence."""
    return text.partition(". ")[0].rstrip(".") + "."


def _backward(forward: str) -> str:
    own = sections("operators")["backwards"].texts.get(f"{forward}Backward")
    own = own or "It computes the gradients of that op's inputs with the ops that it calls."
    if forward.endswith("Function"):
        return f"The backward of {forward}, a torch.autograd.Function. {own}"
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", forward).lower()
    return f"The backward of one call of {snake}. {own}"
