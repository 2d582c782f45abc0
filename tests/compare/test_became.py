"""Which work became which, and by which names it is told: nested ops with kernels of 10 us each."""

import pytest
from tests.compare.test_changes import FORWARD, Program, both, conv
from tests.compare.test_some_steps import said

from tracetui.compare.model import Explanation

MM, WITH_BIAS = (f"nvjet_sm90_tst_64x8_64x16_4x1_v_bz_{end}" for end in ("NNT", "bias_TNT"))
SGEMM = "ampere_sgemm_128x64_nn"
REDUCE = "void cublasLt::splitKreduce_kernel<32, 16, int, float, float>(cublasLt::cublasSplitKParams<float>)"
NHWC = "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)0>(x)"
FOREACH = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<2>, "
    "BinaryOpScalarFunctor<float, 2, 1, 1>, std::{}<float>, float>(x)"
)
MEMSET = "Memset (Device)"
BEFORE, AFTER = ("relu", "clamp"), ("x", "y")


def program(*parts: tuple[object, ...] | str) -> Program:
    """Between two ops that are in all."""
    found = Program(BEFORE, *parts, AFTER)
    for event in found.events:
        event["cat"] = "gpu_memset" if event["name"] == MEMSET else event["cat"]
    return found


@pytest.mark.parametrize(("a", "b", "there", "back", "gpu", "cpu"), [
    (
        [("mul", "a"), ("sum", "b")], [("one", "c")],
        "mul and sum became one", "one became mul and sum", (20, 10), (24, 12),
    ),
    ([("f", "a")], [("g", "b")], "f became g", "g became f", (10, 10), (12, 12)),
    ([("f", "a")], [("f", "b")], "a became b", "b became a", (10, 10), (12, 12)),
    (
        [("f", "a")], [("f", "a1", "a2", "a3")],
        "a became a1, a2 and a3", "a1, a2 and a3 became a", (10, 30), (12, 32),
    ),
    # A product that adds what follows it.
    (
        [("mm", MM), ("add", "plus")], [("addmm", WITH_BIAS)],
        "mm and add became addmm", "addmm became mm and add", (20, 10), (24, 12),
    ),
    # With its helper.
    (
        [("aten::mm", FORWARD, MM)], [("aten::mm", FORWARD, SGEMM, REDUCE)],
        "gemm bf16 64x8 nnt became gemm fp32 128x64 nn and split-K reduce fp32",
        "gemm fp32 128x64 nn and split-K reduce fp32 became gemm bf16 64x8 nnt", (10, 20), (12, 22),
    ),
])  # fmt: skip
def test_work_that_became_other_work(tmp_path, a, b, there, back, gpu, cpu):
    for one, other, text, sides in ((a, b, there, (0, 1)), (b, a, back, (1, 0))):
        (kind, on, change, cpu_change, told), *more = said(both(tmp_path, program(*one), program(*other)))
        assert more == []
        times = [f"{ns[sides[0]]:.1f} µs → {ns[sides[1]]:.1f} µs" for ns in (gpu, cpu)]
        assert told == f"{text}: {times[0]} on the GPU, {times[1]} on the CPU per step."
        sign = sides[1] - sides[0]
        assert (on, change) == ("device", 1000 * sign * (gpu[1] - gpu[0]))
        assert cpu_change == 1000 * sign * (cpu[1] - cpu[0])
        library = "gemm" in text
        assert kind == ("replaced" if library or not change else "split" if change > 0 else "fused")


@pytest.mark.parametrize(("parts", "name", "gpu", "cpu"), [
    ([("outer", ("mul", "a"), ("sum", "b"))], "outer {}", 20, 26),
    ([("f", "a"), ("g", "b"), ("h", "c")], "f, g and h {}s", 30, 36),
    ([("f", "a"), ("g", "b"), ("h", "c"), ("i", "d")], "a, b and 2 others {}s", 40, 48),
    (["lone"], "lone {}", 10, 4),
    ([("f", MEMSET)], "memset (f) {}", 10, 12),
    ([("aten::conv2d", NHWC)], "1 layout conversion per step (nchw to nhwc fp16) {}", 10, 12),
])  # fmt: skip
def test_work_of_one_side_alone(tmp_path, parts, name, gpu, cpu):
    plain, more = program(), program(*parts)
    for a, b, what, sign in ((plain, more, "new", 1), (more, plain, "gone", -1)):
        told = name.replace("{}s", f"are {what}").replace("{}", f"is {what}")
        text = f"{told}: {gpu:.1f} µs on the GPU, {cpu:.{2 if cpu < 10 else 1}f} µs on the CPU per step."
        assert said(both(tmp_path, a, b)) == [(what, "device", 1000 * gpu * sign, 1000 * cpu * sign, text)]


def test_work_of_one_kind_is_told_once_wherever_it_is(tmp_path):
    times, plus = ("f", FOREACH.format("multiplies")), ("g", FOREACH.format("plus"))
    a, b = Program(BEFORE, AFTER, ("z", "w")), Program(BEFORE, times, AFTER, plus, ("z", "w"))
    text = "2 foreach kernels per step (foreach mul fp32 and foreach add fp32) are {}: 20.0 µs on the GPU, "
    text += "24.0 µs on the CPU per step."
    assert said(both(tmp_path, a, b)) == [("new", "device", 20_000, 24_000, text.format("new"))]
    assert said(both(tmp_path, b, a)) == [("gone", "device", -20_000, -24_000, text.format("gone"))]


def test_an_op_around_what_both_do_is_no_name_of_it(tmp_path):
    a = Program(BEFORE, ("outer", ("mul", "a"), ("sum", "b"), AFTER))
    b = Program(BEFORE, ("outer", AFTER))
    text = "mul and sum are gone: 20.0 µs on the GPU, 24.0 µs on the CPU per step."
    assert said(both(tmp_path, a, b)) == [("gone", "device", -20_000, -24_000, text)]


def names(one: Explanation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return one.names_a, one.names_b


@pytest.mark.parametrize(("many", "apart"), [(1, True), (3, True), (4, False)])
def test_the_work_of_an_op_is_that_of_the_same_op_unless_it_is_much_more(tmp_path, many, apart):
    """What stands beside it became something else, and is told with it only if nothing is known of either."""
    kernels = [f"n{k}" for k in range(many)]
    a, b = program(("op", "a"), ("mul", "b")), program(("op", *kernels), ("sum", "c"))
    for one, other, turned in ((a, b, False), (b, a, True)):
        found = sorted(
            names(e)[::-1] if turned else names(e) for e in both(tmp_path, one, other).explanations
        )
        together = [(("a", "b"), (*kernels, "c"))]
        assert found == ([(("a",), tuple(kernels)), (("b",), ("c",))] if apart else together)


def test_a_product_takes_in_what_follows_it_not_what_follows_another(tmp_path):
    a = program(("mm", FORWARD, MM), ("mul", "times"), ("mm", FORWARD, MM), ("add", "plus"))
    b = program(("mm", FORWARD, SGEMM), ("mul", "times"), ("addmm", WITH_BIAS))
    found = [names(e) for e in both(tmp_path, a, b).explanations]
    assert sorted(found) == [((MM,), (SGEMM,)), ((MM, "plus"), (WITH_BIAS,))]
    a = program(("mm", FORWARD, MM), ("mm2", MM), ("add", "plus"))
    b = program(("mm", FORWARD, SGEMM), ("addmm", WITH_BIAS))
    found = [names(e) for e in both(tmp_path, a, b).explanations]
    assert sorted(found) == [((MM,), (SGEMM,)), ((MM, "plus"), (WITH_BIAS,))]


def test_a_set_alone_is_the_same_only_if_the_same_op_asks_for_it(tmp_path):
    a = program(("f", "a"), ("zero_", MEMSET), ("g", "b"))
    assert len(both(tmp_path, a, program(("h", "c"), ("zero_", MEMSET), ("i", "d"))).work.a) == 3
    assert len(both(tmp_path, a, program(("h", "c"), ("clear", MEMSET), ("i", "d"))).work.a) == 2


def test_other_kernels_of_one_kind_are_told_once(tmp_path):
    """Two convolutions of three, the longer change first; the third one is the same."""
    a = program(("f", conv("64x64")), ("p", "q"), ("g", conv("128x64")), ("r", "s"), ("h", conv("32x64")))
    b = program(("f", conv("64x32")), ("p", "q"), ("g", conv("128x32")), ("r", "s"), ("h", conv("32x64")))
    for event in b.events:
        event["dur"] += 5 * (event["name"] == conv("128x32"))
    ((kind, _, change, cpu, text),) = said(both(tmp_path, a, b))
    assert (kind, change, cpu) == ("replaced", 5000, 0)
    assert text == (
        "2 convolutions per step run on other kernels: 20.0 µs → 25.0 µs on the GPU, 24.0 µs → 24.0 µs on "
        "the CPU per step. Most of it: conv fprop tf32 128x64 nhwc became conv fprop tf32 128x32 nhwc: "
        "10.0 µs → 15.0 µs."
    )


def test_what_an_op_launches_by_another_one_within_it_belongs_to_it(tmp_path):
    """`norm` is in both; in one of them it also runs `zeros`. That is not what stood before it became."""
    a = program(("relu2", "p"), ("outer", ("evaluate", ("backward", ("norm", "old")))))
    b = program(("outer", ("evaluate", ("backward", ("norm", ("zeros", "q"), "new")))))
    for one, other, turned in ((a, b, False), (b, a, True)):
        explanations = both(tmp_path, one, other).explanations
        told = sorted(names(e)[::-1] if turned else names(e) for e in explanations)
        assert told == [(("old",), ("q", "new")), (("p",), ())]


def test_an_op_that_became_another_one_did_so_where_nothing_stands_in_its_place(tmp_path):
    """The last of three: its kernels are apart by some that both run."""
    between, many = ("x", "y"), ("mm", "g1", "g2", "g3", "g4", "g5")
    a = program(("f", "a"), between, ("f", "a"), between, ("f", "a"), many)
    b = program(("h", "c"), between, ("h", "c"), between, many, ("h", "c"))
    (one,) = both(tmp_path, a, b).explanations
    assert one.text.startswith("f became h, 3 times: 30.0 µs → 30.0 µs on the GPU, ")
    assert names(one) == (("a",), ("c",))


def test_compiled_kernels_are_told_one_by_one(tmp_path):
    a = program(*[(f"f{k}", f"a{k}") for k in range(6)])
    b = program(*[(f"f{k}", f"triton_poi_fused_add_mul_{k}") for k in range(6)])
    assert not [one for one in both(tmp_path, a, b).explanations if one.text.startswith("The same ops")]


@pytest.mark.parametrize(("many", "apart"), [(4, True), (5, False)])
def test_many_ops_that_run_other_kernels_are_one_sentence(tmp_path, many, apart):
    a = program(*[(f"f{k}", f"a{k}") for k in range(many)])
    b = program(*[(f"f{k}", f"b{k}") for k in range(many)])
    for event in b.events:
        event["dur"] += 5 * (event["name"] == "b1")
    explanations = both(tmp_path, a, b).explanations
    if apart:
        assert {one.text.partition(":")[0] for one in explanations} == {
            f"a{k} became b{k}" for k in range(many)
        }
    else:
        (one,) = explanations
        start = f"The same ops run on other kernels or other sizes, {many} times per step: "
        assert one.text.startswith(f"{start}50.0 µs → 55.0 µs on the GPU, ")
        assert one.text.endswith(". Most of it: a1 became b1: 10.0 µs → 15.0 µs.")
        assert one.kind == "replaced"


@pytest.mark.parametrize(("many", "became"), [(10, True), (44, False)])
def test_with_hardly_anything_in_common_a_place_says_nothing(tmp_path, many, became):
    """A loop of products, each with what follows it, and one product of a whole batch."""
    loop = [part for k in range(many) for part in (("product", f"m{k}"), ("relu2", f"p{k}"))]
    a = program(loop[0], ("same", "p"), *loop[1:])
    found = both(tmp_path, a, program(("batched", "big"), ("same", "p")))
    told = sorted(names(one) for one in found.explanations if one.on == "device")
    assert (any(one and other for one, other in told)) is became
    if not became:
        (gone,) = [one for one in found.explanations if one.kind == "gone"]
        assert gone.text.startswith(f"product and relu2 are gone, {many} times: {20 * many} µs on the GPU, ")
        assert ((), ("big",)) in told
        assert found.mismatch == "A and B have hardly anything in common: is this the same program?"


def test_products_that_run_on_other_kernels_are_told_apart_from_the_rest(tmp_path):
    a, b = (
        program(*[(f"f{k}", f"{other}{k}") for k in range(5)], *[("mm", product), ("z", "z")] * 3)
        for other, product in (("a", MM), ("b", SGEMM))
    )
    rest, products = (one.text for one in both(tmp_path, a, b).explanations)
    assert rest.startswith("The same ops run on other kernels or other sizes, 5 times per step: ")
    assert products.startswith("gemm bf16 64x8 nnt became gemm fp32 128x64 nn, 3 times: ")
