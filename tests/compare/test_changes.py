"""Small traces made by hand: which work became which, and what a sentence calls it."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.compare.conftest import compared, comparison
from tests.kineto import Event, cpu, kernel, launch, step

from tracetui.analysis.device_work import op_behind
from tracetui.compare import match
from tracetui.compare.groups import _unpaired
from tracetui.compare.model import Comparison
from tracetui.compare.naming import counted, listed

FORWARD, BACKWARD = [[64, 32], [32, 16]], [[32, 64], [64, 16]]


class Program:
    """Kernels of 10 us in a step, launched by nested ops: (op, what is in it), or the name of a kernel."""

    def __init__(self, *parts: tuple[object, ...] | str) -> None:
        self.events: list[Event] = []
        self.at, self.number = 100.0, 0
        self.add(parts)
        self.events.append(step(1, 0, self.at + 100))

    def add(self, parts: tuple[object, ...]) -> None:
        for part in parts:
            if isinstance(part, str):
                self.number += 1
                gpu = kernel(5000 + 20 * self.number, 10, self.number, name=part)
                self.events += [launch(self.at, self.number), gpu]
                self.at += 10
            else:
                name, *inner = part
                dims = inner.pop(0) if isinstance(inner[0], list) else []
                begin = self.at
                self.at += 1
                self.add(tuple(inner))
                self.at += 1
                self.events.append(cpu(str(name), begin, self.at - begin, **{"Input Dims": dims}))


def both(folder: Path, a: Program, b: Program) -> Comparison:
    return comparison(folder, a.events, b.events)


def texts(found: Comparison) -> list[str]:
    return [one.text for one in found.explanations if one.on == "device"]


def test_an_op_that_launches_a_part_is_not_the_whole(tmp_path):
    """The sort is not aten::arange's, which launches one kernel of it; but it is of the same call as what
    follows the fill, which both do."""
    a = Program(("backward", ("fill_", "fill"), "feature"), ("mm", "gemm"))
    b = Program(("backward", ("aten::arange", "index"), "sort", ("fill_", "fill"), "scatter"), ("mm", "gemm"))
    (told,) = texts(both(tmp_path, a, b))
    assert told.startswith("feature became index, sort and scatter: 10.0 µs → 30.0 µs on the GPU, ")
    (told,) = texts(both(tmp_path, b, a))
    assert told.startswith("index, sort and scatter became feature: 30.0 µs → 10.0 µs on the GPU, ")


def test_all_that_an_op_launches_is_one_change(tmp_path):
    """Attention that became attention with a product and a sum before it, under one op."""
    a = Program(("mm", "gemm"), ("old", "fmha_cutlassF_f32_a"), ("add", "plus"))
    b = Program(
        ("mm", "gemm"), ("new", ("mul", "times"), ("sum", "total"), "fmha_cutlassB_f32_b"), ("add", "plus")
    )
    (only,) = texts(both(tmp_path, a, b))
    assert only.startswith("old became new: 10.0 µs → 30.0 µs on the GPU, ")
    assert "0 ns" not in only


def test_products_of_the_same_shapes_are_the_same(tmp_path):
    """Casts between products are gone; all products have other kernels."""
    one, other = "nvjet_sm90_tst_64x8_NNT", "ampere_sgemm_128x64_nn"
    a = Program(
        ("aten::mm", FORWARD, one), ("cast", "copy"), ("aten::mm", BACKWARD, one),
        ("cast", "copy"), ("aten::mm", FORWARD, one), ("add", "plus"),
    )  # fmt: skip
    b = Program(("aten::mm", BACKWARD, other), ("aten::mm", FORWARD, other), ("add", "plus"))
    found = both(tmp_path, a, b)
    (became,) = [e for e in found.explanations if e.kind == "replaced"]
    ops = op_behind(found.a.trace, became.events_a)
    assert [one["Input Dims"] for one in found.a.trace.args_of(ops)] == [BACKWARD, FORWARD]
    gone = [found.a.trace.name_of(int(i)) for e in found.explanations if e.kind == "gone" for i in e.events_a]
    assert sorted(gone) == ["copy", "copy", one]


def test_a_pass_that_one_side_lacks_is_one_change(tmp_path):
    """Wherever its kernels lie, and whichever ops launch them; what else is gone is told by itself."""
    evaluate = "autograd::engine::evaluate_function: {}Backward0"
    backward = [
        (evaluate.format("Nll"), ("NllBackward0", ("aten::nll_backward", "nll_back"))),
        (evaluate.format("Mm"), ("MmBackward0", ("aten::mm", "gemm_back"))),
    ]
    step = ("Optimizer.step#SGD.step", ("aten::_foreach_add_", "foreach"))
    forward = [("aten::mm", "gemm"), ("aten::relu", "clamp")]
    a = Program(*forward, ("aten::nll", "nll"), *backward, step)
    b = Program(*forward)
    passed, optimizer, loss = sorted(texts(both(tmp_path, a, b)))
    assert passed.startswith(
        "The backward pass is gone: 2 kernels (nll_back and gemm_back), 20.0 µs on the GPU, "
    )
    assert optimizer.startswith("The optimizer's step is gone: 1 kernel (foreach), 10.0 µs on the GPU, ")
    assert loss.startswith("aten::nll is gone: 10.0 µs on the GPU, ")
    assert [text.partition(":")[0] for text in sorted(texts(both(tmp_path, b, a)))] == [
        "The backward pass is new", "The optimizer's step is new", "aten"
    ]  # fmt: skip
    # Where both have a backward pass, its parts are told one by one.
    (gone,) = texts(both(tmp_path, a, Program(*forward, ("aten::nll", "nll"), backward[0], step)))
    assert "MmBackward0" in gone
    assert "backward pass" not in gone


def test_one_more_of_the_same_is_not_new(tmp_path):
    a = Program(("mm", "gemm"), ("add", "plus"), ("relu", "clamp"))
    b = Program(("mm", "gemm"), ("add", "plus"), ("mm", "gemm"), ("relu", "clamp"))
    (more,) = texts(both(tmp_path, a, b))
    assert more.startswith("mm runs 1 more time: 10.0 µs on the GPU, ")
    (less,) = texts(both(tmp_path, b, a))
    assert less.startswith("mm runs 1 fewer time: ")


def layers(count: int) -> Program:
    """A program with some equal layers of five kernels, and others around them."""
    one = [("mm", "gemm"), ("add", "plus"), ("norm", "mean", "scale"), ("relu", "clamp")]
    return Program(("embed", "gather"), *(one * count), ("loss", "nll"))


def test_one_more_layer_is_one_sentence(tmp_path):
    (more,) = texts(both(tmp_path, layers(3), layers(4)))
    assert more.startswith(
        "One more of a block of 5 kernels, copies and memsets, which comes 4 times in a row instead of 3 "
    )
    (fewer,) = texts(both(tmp_path, layers(4), layers(2)))
    assert fewer.startswith(
        "2 fewer of a block of 5 kernels, copies and memsets, which comes 2 times in a row instead of 4 "
    )


def test_other_work_is_no_layer(tmp_path):
    """As long, and in the same place, but not the same."""
    other = [("mm", "gemm"), ("add", "plus"), ("norm", "mean", "scale"), ("silu", "sigmoid")]
    one = [*other[:3], ("relu", "clamp")]
    b = Program(("embed", "gather"), *one, *other, *one, *one, ("loss", "nll"))
    assert not any("block" in text for text in texts(both(tmp_path, layers(3), b)))


CAST = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda({})::"
    "{{lambda(float)#1}}, at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1> >(int)"
)


def test_casts_are_one_sentence(tmp_path):
    """Wherever they are, and whatever asked for them."""
    a = Program(
        ("aten::to", ("aten::copy_", CAST.format(1))), ("mm", "gemm"), ("add", "plus"),
        ("backward", ("aten::copy_", CAST.format(1))), ("relu", "clamp"), ("sum", "total"),
        ("aten::to", ("aten::copy_", CAST.format(1)), ("aten::copy_", CAST.format(1))), ("mean", "average"),
    )  # fmt: skip
    b = Program(("mm", "gemm"), ("add", "plus"), ("relu", "clamp"), ("sum", "total"), ("mean", "average"))
    (gone,) = texts(both(tmp_path, a, b))
    assert re.match(r"4 casts per step \(copy .*\) are gone: 40.0 µs on the GPU, ", gone)


def test_a_cast_is_not_a_copy_within_attention(tmp_path):
    """Nor the set of memory of what follows: both belong to their ops."""
    cast, copy = CAST.format(1), "void at::native::elementwise_kernel<128, direct_copy_kernel_cuda>(int)"
    a = Program(
        ("mm", "gemm"), ("aten::to", ("aten::copy_", cast)), ("old", "fmha_cutlassF_f32_a"), ("add", "plus")
    )
    new = ("new", ("aten::mul", "times"), ("aten::clone", copy), "fmha_cutlassB_f32_b")
    gone, became = sorted(texts(both(tmp_path, a, Program(("mm", "gemm"), new, ("add", "plus")))))
    assert re.match(r"1 cast per step \(copy .*\) is gone: 10.0 µs", gone)
    assert became.startswith("old became new: 10.0 µs → 30.0 µs")


def test_a_change_of_layout_does_not_become_a_cast(tmp_path):
    convert = "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true>(int)"
    a = Program(("mm", "gemm"), ("aten::convolution", convert), ("add", "plus"))
    b = Program(("mm", "gemm"), ("aten::to", ("aten::copy_", CAST.format(1))), ("add", "plus"))
    gone, new = sorted(texts(both(tmp_path, a, b)))
    assert re.match(r"1 cast per step \(copy .*\) is new: 10.0 µs", gone)
    assert re.match(r"1 layout conversion per step \(nchw to nhwc.*\) is gone: 10.0 µs", new)


def test_one_backward_does_not_become_another(tmp_path):
    """Where the products between them stand in another order."""
    a = Program(("mm", "gemm"), ("aten::gelu_backward", "gelu_kernel"), ("add", "plus"))
    b = Program(("mm", "gemm"), ("triton", "triton_per_fused_native_layer_norm_backward_3"), ("add", "plus"))
    gone, new = sorted(texts(both(tmp_path, a, b)))
    assert gone.startswith("aten::gelu_backward is gone: ")
    assert new.startswith("triton is new: ")
    same = Program(("mm", "gemm"), ("triton", "triton_poi_fused_gelu_gelu_backward_3"), ("add", "plus"))
    (became,) = texts(both(tmp_path, a, same))
    assert became.startswith("aten::gelu_backward became triton: ")


def test_a_normalization_of_another_library_is_the_same_work(tmp_path):
    """Also where other changes stand right beside it, and with a set of memory."""
    nhwc, plain = "bn_bw_1C11_kernel_new<float>", "batch_norm_backward_kernel<float>"
    a = Program(("mm", "gemm"), ("cut", "one"), ("aten::cudnn_batch_norm_backward", nhwc), ("add", "plus"))
    b = Program(
        ("mm", "gemm"), ("cut", "two"), ("aten::native_batch_norm_backward", "Memset (Device)", plain),
        ("add", "plus"),
    )  # fmt: skip
    changes = texts(both(tmp_path, a, b))
    assert any(
        one.startswith("aten::cudnn_batch_norm_backward became aten::native_batch_norm_backward: ")
        for one in changes
    )


def test_a_normalization_of_another_library_is_the_same_work_in_another_place(tmp_path):
    """Gone here, and new there, with a fill of its own."""
    nhwc, plain = "bn_bw_1C11_kernel_new<float>", "batch_norm_backward_kernel<float>"
    a = Program(("aten::cudnn_batch_norm_backward", nhwc), ("mm", "gemm"), ("add", "plus"))
    fill = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int> >(int)"
    b = Program(
        ("mm", "gemm"), ("add", "plus"), ("aten::native_batch_norm_backward", plain, ("aten::fill_", fill))
    )
    (text,) = texts(both(tmp_path, a, b))
    assert text.startswith("aten::cudnn_batch_norm_backward became aten::native_batch_norm_backward: ")
    layer = Program(("mm", "gemm"), ("add", "plus"), ("aten::native_layer_norm_backward", plain))
    assert len(texts(both(tmp_path, a, layer))) == 2


def test_sizes_of_calls_are_not_told_beside_other_work(tmp_path):
    """The empty_like of one thing, and of another."""
    a = Program(("empty_like", [[8]]), ("old", "k"), ("add", "plus"))
    b = Program(("empty_like", [[16]]), ("new", "l"), ("add", "plus"))
    assert "sizes" not in {one.kind for one in both(tmp_path, a, b).explanations}
    same = Program(("empty_like", [[16]]), ("old", "k"), ("add", "plus"))
    assert "sizes" in {one.kind for one in both(tmp_path, a, same).explanations}


def conv(tile: str) -> str:
    kernel = "sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize"
    return f"{kernel}{tile}x32_warpgroupsize1x1x1_g1_execute_kernel__5x_cudnn"


def test_an_op_of_both_that_runs_another_kernel_is_not_gone_and_new(tmp_path):
    """The first runs what the second ran: what is matched by name is in another place."""
    a = Program(("aten::conv2d", conv("64x64")), "other", ("aten::conv2d", conv("128x128")))
    b = Program(("aten::conv2d", conv("128x128")), "other", ("aten::conv2d", conv("256x64")))
    (text,) = texts(both(tmp_path, a, b))
    assert text.startswith("conv fprop tf32 64x64 nhwc became conv fprop tf32 256x64 nhwc: 10.0 µs → 10.0 µs")
    # So it is without a step around it, where the op is the first event of all.
    around, _ = a.events.pop(), b.events.pop()
    assert texts(both(tmp_path, a, b)) == [text.replace(" per step", "")]
    a.events.append(around)
    # Where B has no such op, the kernel is gone.
    b = Program(("aten::conv2d", conv("128x128")), "other")
    text, moved = texts(both(tmp_path, a, b))
    assert "another place" in moved
    assert text.startswith("aten::conv2d is gone: ")


def test_normalizations_are_told_together(tmp_path):
    names = [("bn_fw_tr_1C11_kernel_NCHW<float, 512>", "batchnorm_fwtr_nhwc_semiPersist<float, 512>")]
    names += [("bn_fw_tr_1C11_kernel_NCHW<float, 128>", "batchnorm_fwtr_nhwc_semiPersist<float, 128>")]
    a, b = (
        Program(
            *((f"op{n}", f"between{n}", ("aten::cudnn_batch_norm", one[side])) for n, one in enumerate(names))
        )
        for side in (0, 1)
    )
    (text,) = texts(both(tmp_path, a, b))
    assert text.startswith("2 normalizations per step run on other kernels: 20.0 µs → 20.0 µs on the GPU")


def typed(of: str, *more: object) -> Program:
    """A product, a sum, a layer norm and an activation of this type, and a norm of a loss that is fp32."""
    cutlass = {
        "bf16": "nvjet_sm90_tst_128x64_64x8_1x2_h_bz_NNT",
        "fp32": conv("64x64").replace("fprop_implicit_", ""),
    }
    c10 = {"bf16": "c10::BFloat16", "fp32": "float"}[of]
    return Program(
        ("aten::mm", cutlass[of]),
        (
            "aten::add",
            f"void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<{c10}>, 3>(int)",
        ),
        (
            "aten::native_layer_norm",
            f"void at::native::vectorized_layer_norm_kernel<{c10}, float, false>(int)",
        ),
        (
            "aten::_fused_adamw_",
            "void multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, "
            f"FusedAdamMathFunctor<{c10}, 4> >(int)",
        ),
        "void at::native::cunn_SoftMaxForwardReg<float, float, float>(int)",
        *more,
    )


def test_another_type_of_numbers_is_one_change(tmp_path):
    a, b = typed("bf16"), typed("fp32")
    (text,) = texts(both(tmp_path, a, b))
    assert text.startswith(
        "The same ops run in fp32 instead of bf16, 4 kernels (4 names) per step became 4 (4 names): "
        "40.0 µs → 40.0 µs on the GPU, "
    )
    (back,) = texts(both(tmp_path, b, a))
    assert back.startswith("The same ops run in bf16 instead of fp32, ")
    # What has nothing to do with it is told by itself.
    new, text = sorted(texts(both(tmp_path, a, typed("fp32", ("aten::sort", "sort")))))
    assert new.startswith("The same ops run in fp32")
    assert text.startswith("aten::sort is new")


def test_a_few_layers_more_are_one_change(tmp_path):
    """Blocks of the forward and of the backward pass, each twice more."""
    forward = [(f"aten::f{n}", f"forward{n}") for n in range(5)]
    backward = [(f"aten::b{n}", f"backward{n}") for n in range(6)]

    def layers(many: int) -> Program:
        return Program("embed", *forward * many, "loss", *backward * many, "update")

    more, fewer = (texts(both(tmp_path, layers(x), layers(y))) for x, y in ((4, 6), (6, 4)))
    assert len(more) == len(fewer) == 1
    assert more[0].startswith(
        "2 more of each of the blocks of 5 and 6 kernels, copies and memsets, which come 6 times in a row "
        "instead of 4 ("
    )
    assert "): 220 µs on the GPU, " in more[0]
    assert fewer[0].startswith("2 fewer of each of the blocks of 5 and 6 kernels, ")


def test_kernels_that_other_ops_run_now_have_not_moved(tmp_path):
    """Three convolutions: two run each other's kernels, the third one that is new."""

    def program(*tiles: str) -> Program:
        return Program(
            *((f"part{n}", ("aten::conv2d", conv(tile)), f"between{n}") for n, tile in enumerate(tiles))
        )

    a, b = program("64x64", "128x128", "256x64"), program("128x128", "64x64", "256x128")
    (text,) = texts(both(tmp_path, a, b))
    assert text.startswith("conv fprop tf32 256x64 nhwc became conv fprop tf32 256x128 nhwc")
    # Where none became others, they are told to have moved.
    (text,) = texts(both(tmp_path, a, program("128x128", "64x64", "256x64")))
    assert "another place" in text


def test_another_activation(tmp_path):
    """Forward and backward; the backward of one is all that is in the place of the other's."""
    a = Program(
        ("mm", "gemm"), ("aten::gelu", "gelu"), ("add", "plus"), ("aten::gelu_backward", "gelu_bwd"),
        ("sum", "t")
    )  # fmt: skip
    b = Program(
        ("mm", "gemm"), ("aten::relu", "clamp"), ("add", "plus"), ("aten::threshold_backward", "cut"),
        ("sum", "t"),
    )  # fmt: skip
    forward, backward = sorted(texts(both(tmp_path, a, b)))
    assert forward.startswith("aten::gelu became aten::relu: ")
    assert backward.startswith("aten::gelu_backward became aten::threshold_backward: ")


def test_another_normalization_is_named(tmp_path):
    """Not as other kernels of the same."""
    norm = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, {}>(int)"
    a, b = (
        Program(("mm", "gemm"), (op, norm.format(rms)), ("add", "plus"))
        for op, rms in (("aten::layer_norm", "false"), ("aten::rms_norm", "true"))
    )
    (became,) = texts(both(tmp_path, a, b))
    assert became.startswith("aten::layer_norm became aten::rms_norm: ")


def test_how_often_something_new_runs(tmp_path):
    """Each name as often as it comes, not once for each place; names that do not come as often are counted
    together."""
    a = Program(("mm", "gemm"), ("add", "plus"), ("mean", "average"))
    three = [("aten::zero_", "fill")] * 3
    b = Program(("mm", "gemm"), *three, ("add", "plus"), ("aten::sort", "sort"), ("mean", "average"))
    new = texts(both(tmp_path, a, b))
    assert any(one.startswith("aten::zero_ is new, 3 times: 30.0 µs") for one in new)
    assert any(one.startswith("aten::sort is new: 10.0 µs") for one in new)
    b = Program(
        ("mm", "gemm"), *three, *((f"op{n}", f"k{n}") for n in range(4)), ("add", "plus"), ("mean", "average")
    )
    (new,) = texts(both(tmp_path, a, b))
    assert new.startswith("7 kernels per step (fill, k0 and 3 others) are new: 70.0 µs on the GPU")


def test_the_same_ops_are_told_at_once(tmp_path):
    """Sizes decide on the kernels that an op runs, and on how many: still one sentence, with their sums."""

    def program(op: str, one: tuple[str, ...], other: tuple[str, ...]) -> Program:
        return Program(("mm", "gemm"), (op, *one), ("add", "plus"), (op, *other), ("sum", "t"))

    a = program("aten::batch_norm", ("bn_small",), ("bn_large", "bn_rest"))
    b = program("aten::group_norm", ("gn_moments", "gn_small"), ("gn_large",))
    (became,) = texts(both(tmp_path, a, b))
    assert became.startswith(
        "aten::batch_norm became aten::group_norm, 2 times: 30.0 µs → 30.0 µs on the GPU"
    )
    (only,) = texts(both(tmp_path, a, Program(("mm", "gemm"), ("add", "plus"), ("sum", "t"))))
    assert only.startswith("aten::batch_norm is gone, 2 times: 30.0 µs on the GPU")


def test_checks_all_over_a_program_are_one_change(tmp_path):
    """Once in one place, and twice in another."""
    check = [("aten::isnan", "ne"), ("aten::any", "any")]
    ops = [("mm", "gemm"), ("add", "plus"), ("relu", "clamp"), ("mean", "average")]
    a = Program(*ops)
    b = Program(ops[0], *check, ops[1], *check, *check, *ops[2:], ("aten::sort", "sort"))
    checks, sort = sorted(texts(both(tmp_path, a, b)))
    assert checks.startswith("aten::isnan and aten::any are new, 3 times: 60.0 µs on the GPU")
    assert sort.startswith("aten::sort is new: ")


@pytest.mark.parametrize(("prefix", "asked"), [("other", True), ("triton_poi_fused_mul", False)])
def test_what_a_compiler_made_of_a_program_is_no_other_program(tmp_path, prefix, asked):
    """A fifth of the kernels is the same, in more places than are told one by one."""

    def program(op: str, kernel: str) -> Program:
        units = [(f"same{n}", f"s{n}") for n in range(14)]
        within = [[(f"{op}i", (f"{op}j", f"{kernel}_{n}{k}")) for k in range(4)] for n in range(14)]
        mine = [(f"{op}{n}", *parts) for n, parts in enumerate(within)]
        return Program(*(part for pair in zip(units, mine, strict=True) for part in pair))

    found = both(tmp_path, program("aten::old", "one"), program("aten::new", prefix))
    assert ("is this the same program?" in found.mismatch) is asked


@pytest.mark.parametrize(("a_adds", "b_adds", "a", "b", "after"), [
    (True, False, [], [5], [("kernel", [1], [1, 5])]),  # what it did by itself another one does now
    (True, True, [], [5], [("kernel", [1], [1]), ("new", [], [5])]),
    (False, False, [], [5], [("kernel", [1], [1]), ("new", [], [5])]),
    (False, True, [5], [], [("kernel", [1, 5], [1])]),
    (False, False, [5], [], [("kernel", [1], [1]), ("gone", [5], [])]),
    (True, True, [5], [], [("kernel", [1], [1]), ("gone", [5], [])]),
])  # fmt: skip
def test_what_follows_a_pair_belongs_to_it_where_one_of_them_took_it_in(a_adds, b_adds, a, b, after):
    left, right = (
        SimpleNamespace(moves=lambda i: False, adds=lambda events, adds=adds: adds)
        for adds in (a_adds, b_adds)
    )
    found = [("kernel", [1], [1])]
    more = _unpaired(a, b, left, right, found)
    assert [*found, *more] == after


def test_copies_in_place_of_others_replaced_them():
    moves: Any = SimpleNamespace(moves=lambda i: True)
    assert _unpaired([3], [4], moves, moves, []) == [("replaced", [3], [4])]


def test_a_copy_that_became_a_memset_is_one_change(tmp_path):
    a, b = Program(("aten::f", ("g", "gemm"), "x")), Program(("aten::f", ("g", "gemm"), "x"))
    for program, name, cat in (
        (a, "Memcpy DtoD (Device -> Device)", "gpu_memcpy"),
        (b, "Memset (Device)", "gpu_memset"),
    ):
        (event,) = [one for one in program.events if one["name"] == "x"]
        event.update(name=name, cat=cat)
    (text,) = texts(both(tmp_path, a, b))
    assert text.startswith("memcpy DtoD became memset: ")


@pytest.mark.parametrize(("first", "second", "told"), [
    (["aten::clone"], ["aten::contiguous"], ["(aten::clone) is new", "(aten::contiguous) is new"]),
    (["aten::clone"] * 3, ["aten::clone"] * 2, ["(aten::clone) is new, 5 times"])
])  # fmt: skip
def test_copies_are_told_by_the_ops_that_make_them(tmp_path, first, second, told):
    """Those of one op at once, however many there are in each place."""
    gemm, *rest = ("mm", "gemm"), ("add", "plus"), ("sum", "t")
    a = Program(gemm, *rest)
    b = Program(gemm, *((op, "x") for op in first), rest[0], *((op, "x") for op in second), rest[1])
    for event in b.events:
        if event["name"] == "x":
            event.update(name="Memcpy DtoD (Device -> Device)", cat="gpu_memcpy")
    new = [text.partition(":  ")[0].rpartition(": ")[0] for text in texts(both(tmp_path, a, b))]
    assert new == [f"memcpy DtoD {text}" for text in told]


@pytest.mark.parametrize(("name", "told"), [("Memset (Device)", False), ("zero", True)])
def test_a_set_of_memory_that_moves_comes_along_with_other_work(tmp_path, name, told):
    zero, mm, add = ("aten::zero_", "x"), ("mm", "gemm"), ("add", "plus")
    a = Program(mm, zero, add, ("aten::old", "k1"))
    b = Program(zero, mm, add, ("aten::new", "k2"))
    for event in a.events + b.events:
        if event["name"] == "x":
            event.update(name=name, cat="gpu_memset" if name.startswith("Memset") else "kernel")
    assert any("in another place" in text for text in texts(both(tmp_path, a, b))) is told


@pytest.mark.parametrize(("length", "same"), [(79, True), (81, False)])
def test_beside_other_work_a_kernel_that_takes_eight_times_as_long_is_another(tmp_path, length, same):
    a = Program(("mm", "gemm"), ("aten::f", "x"), ("add", "plus"))
    b = Program(("mm", "gemm"), ("aten::g", "y"), ("aten::f", "x"), ("add", "plus"))
    for event in b.events:
        if event["cat"] == "kernel":
            event["ts"] += 100 * event["args"]["correlation"]
            event["dur"] = length if event["name"] == "x" else 10
    first = texts(both(tmp_path, a, b))[0]
    assert first.startswith(f"x takes {length}.0 µs instead of 10.0 µs" if same else "x became y and x")


def test_sizes_of_very_many_events_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(match, "sizes_of", None)
    monkeypatch.setattr(match, "MOST_SIZED", 4)
    a, b = (
        Program(("mm", "gemm"), ("add", "plus")),
        Program(("mm", "gemm"), ("aten::f", "x"), ("add", "plus")),
    )
    (new,) = texts(both(tmp_path, a, b))
    assert new.startswith("aten::f is new")


def test_kernels_on_another_stream_are_told_as_that(tmp_path):
    """Three of ten run on a second stream, whatever its number is in the other recording."""
    names = [f"k{n}" for n in range(10)]
    for name, second, side in (("a", 20, 0), ("b", 31, 3)):
        program = Program(*[(f"f{n}", one) for n, one in enumerate(names)])
        for event in program.events:
            if event["name"] in names[:side]:
                event["tid"] = event["args"]["stream"] = second
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": program.events}))
    text = compared(tmp_path / "a.json", tmp_path / "b.json").explanations[0].text
    assert text == "k0, k1 and k2 run on stream 31 instead of stream 7."
    text = compared(tmp_path / "b.json", tmp_path / "a.json").explanations[0].text
    assert text == "k0, k1 and k2 run on stream 7 instead of stream 31."


def test_a_node_of_the_backward_pass_is_one_name():
    evaluate, other = "evaluate MulBackward0", "aten::mul"
    assert listed([evaluate, "MulBackward0", other]) == f"{evaluate} and {other}"
    assert listed(["MulBackward0", evaluate]) == evaluate
    assert listed(["MulBackward0", other]) == f"MulBackward0 and {other}"


def test_counts_of_a_step_that_are_no_whole_numbers():
    said = [counted(number, "call") for number in (0, 0.5, 1, 1.4, 2, 2.6)]
    assert said == ["0 calls", "0.50 calls", "1 call", "about 1 call", "2 calls", "about 3 calls"]
