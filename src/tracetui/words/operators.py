"""Explains PyTorch's operators. Each name belongs to a group, whose sentence says what takes its time."""

from __future__ import annotations

import re

ONE_KERNEL = "On a GPU it is one kernel; memory traffic sets its time, or the launch if tensors are small."
VIEW = "It makes a new view of the same memory with different sizes and strides: metadata only."
IN_PLACE = (
    "In place: the result overwrites the input, so it takes no new memory; autograd raises an error if "
    "it still needs the old values."
)
VIEW_IN_PLACE = "In place: it changes the tensor's own sizes and strides, metadata only."
CALLS = "It launches nothing itself; the ops it calls do the work."
PRODUCT = (
    "On a GPU the library (cuBLAS on NVIDIA) picks a kernel by shape, type and layout; arithmetic sets the "
    "time of a large matmul, the launch that of a tiny one."
)
CONVOLVES = (
    "On a GPU the library (cuDNN on NVIDIA) picks kernels by shape, type and layout: one, or several that "
    "also convert the layout."
)
REDUCES = "On a GPU it is one or two kernels; reading memory sets their time."
FUSED = "The whole of it is one op, so its intermediate values are not written to memory."
NOTHING = "It launches nothing."

_ELEMENTWISE = """
abs Takes the absolute value of each element.
add Adds two tensors, or a number to each element.
addcdiv Adds the scaled quotient of two tensors.
addcmul Adds the scaled product of two tensors.
bitwise_and Combines two tensors bit by bit with "and".
bitwise_not Flips each bit, or each truth value.
bitwise_or Combines two tensors bit by bit with "or".
cat Joins tensors along a dimension, by copying them into one.
ceil Rounds each element up.
clamp Limits each element to a range.
clamp_min Limits each element from below.
cos Takes the cosine of each element.
div Divides by a tensor or a number.
elu The ELU activation.
eq Compares for "equal": one truth value per element.
erf Computes the error function of each element.
exp Takes the exponential of each element.
fill_ Sets every element to one value.
floor Rounds each element down.
floor_divide Divides and rounds down.
gather Picks one element per index along a dimension.
ge Compares for "greater or equal": one truth value per element.
gelu The GELU activation.
gelu_backward The gradient of GELU.
gt Compares for "greater": one truth value per element.
index_add_ Adds rows at the places an index gives.
index_copy_ Writes rows to the places an index gives, as updating a KV cache does.
index_put_ Writes elements to the places indices give, as x[i] = y does.
isfinite Says for each element whether it is finite.
isinf Says for each element whether it is infinite.
isneginf Says for each element whether it is minus infinity.
isnan Says for each element whether it is not a number.
le Compares for "less or equal": one truth value per element.
leaky_relu The leaky ReLU activation.
lerp_ Moves each element part of the way to another tensor.
log Takes the logarithm of each element.
log2 Takes the base-2 logarithm of each element.
logical_and Combines truth values with "and".
logical_not Negates truth values.
logical_or Combines truth values with "or".
lt Compares for "less": one truth value per element.
masked_fill_ Sets the elements that a mask marks to one value.
masked_select Picks the elements that a mask marks.
maximum Takes the larger of two elements.
minimum Takes the smaller of two elements.
mish The Mish activation.
mul Multiplies by a tensor or a number, element by element.
nan_to_num Replaces elements that are not finite numbers.
native_dropout Sets random elements to zero, scales the rest, and keeps the mask for the backward pass.
ne Compares for "not equal": one truth value per element.
neg Changes the sign of each element.
reciprocal Takes 1/x of each element.
remainder Takes the remainder of a division.
round Rounds each element.
rsqrt Takes 1/√x of each element, as RMSNorm and LayerNorm do with the mean square.
scatter_ Writes elements to the places an index gives.
scatter_add_ Adds elements at the places an index gives.
sigmoid The sigmoid of each element.
sign Takes the sign of each element.
silu The SiLU activation, x·sigmoid(x).
silu_backward The gradient of SiLU.
sin Takes the sine of each element.
sqrt Takes the square root of each element.
sub Subtracts a tensor or a number.
tanh The hyperbolic tangent of each element.
sigmoid_backward The gradient of the sigmoid.
tanh_backward The gradient of tanh.
threshold_ Replaces elements below a threshold, in place.
threshold_backward The gradient of ReLU.
tril Keeps the lower triangle of a matrix and sets the rest to zero, as a causal mask needs.
triu Keeps the upper triangle of a matrix and sets the rest to zero, as a causal mask needs.
"""
_RANDOM = """
bernoulli_ Fills a tensor with random zeros and ones.
exponential_ Fills a tensor with random numbers from the exponential distribution.
normal_ Fills a tensor with random numbers from the normal distribution.
random_ Fills a tensor with random integers.
uniform_ Fills a tensor with random numbers of the uniform distribution.
"""
_VIEWS = """
_reshape_alias Gives a tensor a new shape, for reshape.
_unsafe_view Gives a fresh result a new shape, as matmul does at the end.
alias Makes a second tensor over the same memory.
as_strided Makes a view with given sizes and strides; other views are built on it.
chunk Splits a tensor into equal parts along a dimension.
detach Makes a tensor that autograd does not follow.
diagonal Takes the diagonal.
expand Repeats a dimension of size 1 with a stride of 0: nothing is copied.
expand_as Repeats dimensions of size 1 with a stride of 0, to the size of another tensor.
lift_fresh Passes on a tensor just made from Python data, as torch.tensor does.
movedim Moves a dimension to another place.
narrow Takes a range of a dimension.
numpy_T Reverses the order of the dimensions (x.T).
permute Changes the order of the dimensions.
select Takes one index of a dimension, as x[0] does.
slice Takes a range of a dimension, as x[1:5] does.
split Splits a tensor into parts along a dimension.
split_with_sizes Splits a tensor into parts of given sizes along a dimension.
squeeze Removes dimensions of size 1.
swapaxes Swaps two dimensions.
t Transposes a matrix by swapping its two strides: no element moves.
transpose Swaps two dimensions by swapping their strides: no element moves.
unbind Splits a tensor into its slices along a dimension.
unflatten Splits a dimension into several.
unflatten_dense_tensors Takes tensors out of one that flatten_dense_tensors made.
unfold Makes a view of sliding windows.
unsqueeze Adds a dimension of size 1.
view Gives a tensor a new shape; its elements must be in order for that.
view_as Gives a tensor the shape of another one.
view_as_complex Reads pairs of numbers as complex ones.
view_as_real Reads complex numbers as pairs.
"""
_MAYBE_COPIES = """
contiguous Makes sure that a tensor's elements are in order.
flatten Merges dimensions into one.
reshape Gives a tensor a new shape.
"""
_CALLS = """
_safe_softmax A softmax that gives zeros, not NaN, for rows that are fully masked; attention's math
    backend uses it.
_scaled_dot_product_attention_math Attention in single ops, the math backend: matmuls, mask and softmax are
    separate kernels, and the scores are written to memory.
_to_copy Makes a copy with a different type, device or layout, via empty and copy_.
cross_entropy_loss The cross-entropy loss: log_softmax, then nll_loss, or single ops if the targets are
    probabilities.
embedding Looks up rows of a table by index; it calls index_select.
embedding_backward The gradient of an embedding's table; it calls embedding_dense_backward.
full Makes a tensor and sets all of it to one value, via empty and fill_.
full_like Makes a tensor like another and sets all of it to one value.
layer_norm Normalizes rows by mean and variance; it calls native_layer_norm.
log_softmax The logarithm of a softmax; it calls _log_softmax.
matmul A matrix multiplication of any dimensions; it chooses mm, bmm or mv, and makes views to fit.
new_empty Allocates a tensor of the same type and device as another.
new_zeros Makes a tensor of zeros of the same type and device as another.
_batch_norm_impl_index Chooses how a batch norm is computed.
_convolution Chooses the library that computes a convolution.
adaptive_avg_pool2d Takes means over areas of an image.
batch_norm Normalizes each channel by its mean and variance.
broadcast_to Repeats dimensions of size 1 to a given size; it calls expand.
constant_pad_nd Copies a tensor into a larger one and fills the border with a constant: empty, fill_ and
    copy_.
conv1d A convolution of sequences; it calls convolution.
conv2d A convolution of images; it calls convolution.
convolution A convolution; it calls _convolution, which chooses a library.
dropout Sets random elements to zero while training, and scales the rest; in eval mode it returns its input.
einsum A sum of products in Einstein notation, via views and bmm.
gather_backward The gradient of gather: zeros, and a scatter_add_.
linalg_norm A norm; it calls linalg_vector_norm or matrix ops.
flatten_dense_tensors Joins tensors into one of a single dimension, via view and cat.
log_sigmoid The logarithm of the sigmoid; it calls log_sigmoid_forward.
max_pool2d Takes the maximum over areas of an image; it calls max_pool2d_with_indices.
nll_loss The negative log-likelihood loss; it calls nll_loss_forward.
nll_loss_nd The negative log-likelihood loss for inputs of any dimension; it calls nll_loss.
ones Makes a tensor of ones, via empty and fill_.
ones_like Makes a tensor of ones like another, via empty_like and fill_.
pad Adds a border to a tensor; it calls constant_pad_nd or another op for the mode.
rand Makes a tensor of random numbers between 0 and 1, via empty and uniform_.
randint Makes a tensor of random integers, via empty and random_.
randn Makes a tensor of normally distributed random numbers, via empty and normal_.
repeat Copies a tensor several times along its dimensions.
rsub Subtracts from a number; it calls sub.
rms_norm Normalizes rows by their root mean square: one fused op if PyTorch has it, otherwise pow, mean,
    add, rsqrt and mul, a kernel each.
slice_backward The gradient of a slice: zeros of the whole size, with the gradient copied into the slice.
softmax A softmax; it calls _softmax.
square Multiplies each element by itself; it calls pow.
stack Joins tensors along a new dimension; it calls cat.
to Moves or converts a tensor if it has to, via _to_copy; otherwise it returns the tensor as it is.
type_as Converts a tensor to the type of another one, via to.
zero_ Sets every element to zero, on a GPU via fill_.
zeros Makes a tensor of zeros, via empty and zero_.
zeros_like Makes a tensor of zeros like another.
"""
_PRODUCTS = """
_int_mm Multiplies two int8 matrices.
_scaled_mm Multiplies two FP8 matrices, with scales.
baddbmm A batch of matrix multiplications, plus a third input.
bmm A batch of matrix multiplications: one for each entry of the first dimension.
dot The dot product of two vectors.
mm Multiplies two matrices; where the sums are split, a memset or a second kernel that adds belongs to it.
mv Multiplies a matrix and a vector.
"""
_CONVOLUTIONS = """
convolution_backward The gradient of a convolution, of its input and its weight.
cudnn_convolution A convolution by cuDNN.
cudnn_convolution_backward The gradient of a convolution by cuDNN, of its input and its weight.
"""
_REDUCTIONS = """
_log_softmax The logarithm of a softmax over rows.
_log_softmax_backward_data The gradient of log_softmax.
_softmax A softmax over rows.
_softmax_backward_data The gradient of softmax.
all Says whether all elements are true.
amax Takes the largest element along dimensions.
amin Takes the smallest element along dimensions.
any Says whether any element is true.
argmax Finds the index of the largest element, as greedy decoding does.
argmin Finds the index of the smallest element.
cudnn_batch_norm A batch norm by cuDNN.
cudnn_batch_norm_backward The gradient of a batch norm by cuDNN.
cumsum Running sums along a dimension.
linalg_vector_norm The norm of a vector, as gradient clipping needs it.
max Takes the largest element.
max_pool2d_with_indices Takes the maximum over areas of an image, and notes where it was.
mean Takes the mean, of all elements or along dimensions.
min Takes the smallest element.
native_layer_norm Normalizes rows by mean and variance.
native_layer_norm_backward The gradient of a layer norm.
norm The norm of a tensor.
prod Multiplies elements along a dimension.
std The standard deviation along dimensions.
sum Adds elements, all or along dimensions.
var The variance along dimensions.
var_mean Variance and mean in one go.
"""
_MEMORY = """
empty Allocates a tensor, on a GPU from PyTorch's caching allocator, and does not fill it.
empty_like Allocates a tensor like another, on a GPU from PyTorch's caching allocator, and does not fill it.
empty_strided Allocates a tensor with given strides, on a GPU from PyTorch's caching allocator, and does
    not fill it.
conj Marks a tensor as conjugated.
detach_ Cuts a tensor off from autograd, in place.
is_pinned Asks whether host memory is pinned.
record_stream Tells the caching allocator that another stream uses this memory, so it is not reused too
    early.
resize_ Changes a tensor's size in place; it allocates only if the tensor has too little memory.
resize_as_ Gives a tensor the size of another one, in place.
resolve_conj Applies a pending conjugation, if there is one.
resolve_neg Applies a pending change of sign, if there is one.
result_type Works out the type that a result will have.
set_ Makes a tensor use different memory.
stride Reads a stride.
"""
_ATTENTION = """
_cudnn_attention_forward Attention by cuDNN: one kernel for scores, mask, softmax and weighted sum.
_cudnn_attention_backward The gradient of attention by cuDNN: a main kernel and small ones before and after
    it.
_efficient_attention_forward Memory-efficient attention (from xFormers, on CUTLASS): one kernel.
_efficient_attention_backward The gradient of memory-efficient attention.
_flash_attention_forward Flash attention: one kernel for scores, mask, softmax and weighted sum.
_flash_attention_backward The gradient of flash attention.
_scaled_dot_product_cudnn_attention Attention with the cuDNN backend.
_scaled_dot_product_cudnn_attention_backward The gradient of attention with the cuDNN backend.
_scaled_dot_product_efficient_attention Attention with the memory-efficient backend.
_scaled_dot_product_efficient_attention_backward The gradient of attention with the memory-efficient backend.
_scaled_dot_product_flash_attention Attention with the flash backend.
_scaled_dot_product_flash_attention_backward The gradient of attention with the flash backend.
_scaled_dot_product_flash_attention_for_cpu Attention on the CPU, fused the way flash attention is.
"""
_SCORES = "It never writes the matrix of scores to memory, so long sequences cost less traffic."

_OWN = {
    "item": "Returns the value of a one-element tensor to Python. If the tensor is on the GPU, the CPU "
    "copies the value and waits until the GPU has computed it.",
    "_local_scalar_dense": "Reads a tensor's single value, for item. From a GPU it copies the value and "
    "waits for it.",
    "nonzero": "Finds the indices of the elements that are not zero. Its result's size depends on the data: "
    "the CPU waits for the GPU.",
    "linear": "y = x·Wᵀ + b. It calls addmm (with a bias) or matmul, after a transposed view of the weight.",
    "addmm": "Multiplies two matrices and adds a third input, such as a linear layer's bias. The bias may be "
    "added in the kernel's epilogue; otherwise it is first copied into the result.",
    "copy_": "Copies into an existing tensor: between devices, types or layouts. On one GPU it is a plain "
    "memcpy if type and layout agree, otherwise a kernel; memory traffic sets its time.",
    "clone": "Copies a tensor into new memory, which it allocates, via copy_. On a GPU, reading and writing "
    "all of it sets its time.",
    "masked_fill": "Sets the elements that a mask marks to one value, in a copy: clone, then masked_fill_. "
    "Calling masked_fill_ instead saves the copy, if nothing needs the old values.",
    "index": "Picks elements with tensors of indices, as x[i] does. On a GPU it is one kernel; indices on "
    "the CPU are copied first, and a mask is first made into indices, for which the CPU waits.",
    "index_select": "Picks whole rows by an index, as an embedding does. On a GPU it is one kernel, its own "
    "or that of gather; memory traffic sets its time.",
    "max_pool2d_with_indices_backward": "The gradient of max_pool2d: zeros, and the gradient added at "
    "each maximum. On a GPU these are two kernels.",
    "pow": "Raises each element to a power. On a GPU it is one kernel, or a copy if the exponent is 1; "
    "memory traffic sets its time.",
    "relu": "The ReLU activation: negative elements become zero. On a GPU it is one kernel, its own or that "
    "of clamp_min, which later versions of PyTorch call.",
    "where": "Picks each element from one of two tensors by a condition. On a GPU it is one kernel, and a "
    "tiny one before it for a number, which is made a tensor.",
    "arange": "Makes a tensor of evenly spaced numbers. On a GPU it is one small kernel.",
    "scalar_tensor": "Makes a tensor of one number, via empty and fill_. On a GPU its kernel is tiny: the "
    "launch costs more.",
    "nll_loss_forward": "Picks the log-probability of each target and averages them, with the sign flipped. "
    "On a GPU it is one small kernel.",
    "nll_loss_backward": "The gradient of nll_loss: zeros, and one element of each row set. On a GPU these "
    "are two small kernels.",
    "pin_memory": "Copies a tensor into pinned host memory. Copies from there to a GPU are faster, and the "
    "CPU need not wait for them.",
    "_pin_memory": "Allocates pinned host memory and copies a tensor into it. Only the CPU works on this.",
    "repeat_interleave": "Repeats each element, or each row. With a number it is expand and clone; with a "
    "tensor of counts and no output_size the CPU waits for the GPU to know how large the result is.",
    "embedding_dense_backward": "Adds the gradients to the rows of an embedding's table. Few indices take "
    "one kernel; many are sorted first, so that equal ones are summed together, in several kernels.",
    "_fused_rms_norm": f"Normalizes rows by their root mean square. {FUSED}",
    "_fused_rms_norm_backward": "The gradient of an RMSNorm, of its input and of its weight. On a GPU these "
    "are two or more kernels; memory traffic sets their time.",
    "scaled_dot_product_attention": "Attention. It chooses a backend (flash, memory-efficient, cuDNN or "
    "math) by type, shape and mask; torch.nn.attention.sdpa_kernel pins one.",
    "sort": "Sorts along a dimension. On a GPU it takes several kernels.",
    "topk": "Finds the largest elements along a dimension. On a GPU it takes several kernels.",
    "multinomial": "Draws indices with given probabilities, as sampling a token does. On a GPU it takes "
    "several small kernels.",
    "is_nonzero": "Turns a tensor with one element into a truth value, as `if x:` does. The CPU waits for "
    "the GPU.",
}  # fmt: skip


def _table(lines: str, second: str) -> dict[str, str]:
    """{name: what it does, and the second sentence}, from lines "name what it does"; indented lines continue
    the one before."""
    found = (line.partition(" ") for line in lines.strip().replace("\n    ", " ").splitlines())
    return {name: f"{first} {second}" for name, _, first in found}


_ATEN = {
    **_table(_ELEMENTWISE, ONE_KERNEL),
    **_table(_RANDOM, "On a GPU it is one kernel, which writes the numbers and reads only its own state."),
    **_table(_VIEWS, VIEW),
    **_table(_MAYBE_COPIES, "It is a view, metadata only, if the strides allow it; otherwise it copies."),
    **_table(_CALLS, CALLS),
    **_table(_PRODUCTS, PRODUCT),
    **_table(_CONVOLUTIONS, CONVOLVES),
    **_table(_REDUCTIONS, REDUCES),
    **_table(_MEMORY, NOTHING),
    **_table(_ATTENTION, _SCORES),
    **_OWN,
}

_OTHERS = {
    "detach": "The inner part of aten::detach, which makes a tensor that autograd does not follow. It shares "
    "the memory: metadata only.",
    "detach_": "The inner part of aten::detach_, which cuts a tensor off from autograd in place. It launches "
    "nothing.",
    "TorchDynamo Cache Lookup": "Checks the guards: whether the compiled code still fits these inputs. It is "
    "paid on every call and does not shrink with the work.",
    "Pregraph "
    "bytecode": "Python that torch.compile runs before the compiled graph. It is paid on every call.",
    "AOTDispatcher Runtime Wrapper Prologue": "Prepares the inputs of a compiled graph. It is paid on every "
    "call.",
    "CompiledFunction": "A graph that torch.compile compiled with its backward, as one node for autograd. "
    "All kernels of the graph are launched in it.",
    "CompiledFunctionBackward": "The backward of a graph that torch.compile compiled, as one node. All of "
    "its kernels are launched in it.",
    "record_param_comms": "torch.distributed's record of a collective: its arguments hold the sizes, the "
    "type and the group. The launch may lie inside it; the communication itself runs on the GPU.",
    "torch.distributed.ddp.reducer::copy_bucket_to_grad": "DDP copies the reduced gradients from its bucket "
    "into the gradient of a parameter. It is one small copy for each parameter.",
    "torch::distributed::reducer::mul_out": "DDP puts a gradient into its bucket, divided by the number of "
    "ranks. It is one small kernel for each parameter.",
    "torch::autograd::AccumulateGrad": "Adds a gradient to the .grad of a parameter. The first one after "
    "zero_grad(set_to_none=True) is taken as it is, which launches nothing.",
}

GENERATED = (
    "The code can be read: TORCH_LOGS=output_code prints it as it is compiled, and the files are in "
    "TORCHINDUCTOR_CACHE_DIR (without one, torchinductor_USER in the folder for temporary files)."
)

_Family = tuple[re.Pattern[str], str]


def _families(*pairs: tuple[str, str]) -> tuple[_Family, ...]:
    return tuple((re.compile(pattern), text) for pattern, text in pairs)


_COMPILED = _families(
    (
        r"Torch-Compiled Region: (\d{1,9})/(\d{1,9})",
        "A call of code that torch.compile has compiled. {0}/{1}: function number {0}, in its version "
        "number {1} (both from 0), so that a second number above 0 is a recompilation.",
    ),
    (
        r"Torch-Compiled Region",
        "A call of code that torch.compile has compiled. Its guards are checked first.",
    ),
    (
        r"## Call CompiledFxGraph",
        "Runs the graph that Inductor compiled: its Triton kernels and library calls. The letters are the "
        f"graph's key in the cache. {GENERATED}",
    ),
)
_FAMILIES = _families(
    (
        r"aten::_foreach_(\w{1,80}?)_?\Z",
        "{0} on a whole list of tensors, such as all parameters of an optimizer. On a GPU it takes a few "
        "kernels for the list, not one for each tensor.",
    ),
    (
        r"aten::_fused_(adamw?|sgd|adagrad)_",
        "The optimizer's whole update ({0}) of a list of parameters. On a GPU it takes one kernel or a few "
        "for the list; memory traffic sets their time.",
    ),
    (
        r"autograd::engine::evaluate_function: ([\w:]{1,100})",
        "The autograd engine runs one node of the backward pass, {0}. Gradients that meet are also added up "
        "here.",
    ),
    (
        r"triton_(?:poi|red|per|tem|for|spl)_",
        "Launches a Triton kernel that Inductor wrote; its name lists the ops that were fused into it. "
        f"{GENERATED}",
    ),
    (r"triton_", "Launches a Triton kernel. It was written by hand, or by a compiler that uses such names."),
    (
        r"torch::autograd::CppNode<",
        "A node of the backward pass, written in C++ by a library. It computes the gradients of its op's "
        "inputs.",
    ),
    (
        r"Scatter\Z",
        "DataParallel divides the inputs along the batch and copies a part to each GPU. It also runs "
        "in the backward pass, as the gradient of gathering.",
    ),
    (
        r"Broadcast\Z",
        "DataParallel copies all parameters from the first GPU to the others. It does so in every "
        "forward pass, since the copies are thrown away.",
    ),
    (
        r"Gather\Z",
        "DataParallel copies the outputs of all GPUs to the first one and joins them along the batch. The "
        "loss is computed there.",
    ),
    (
        r"ReduceAddCoalesced\Z",
        "DataParallel adds up the gradients of all GPUs on the first one. Many small tensors "
        "are sent as one.",
    ),
    (
        r"c10d::(\w{1,80})",
        "torch.distributed hands a collective ({0}) to its process group. It returns before the "
        "communication is over, unless it is told to wait.",
    ),
    (
        r"_c10d_functional::(\w{1,80})",
        "A collective ({0}) in the form that torch.compile can trace. It returns before the "
        "communication is over; wait_tensor waits.",
    ),
    (
        r"\w{1,80}Function\Z",
        "The forward of a torch.autograd.Function: Python code with its own backward. Outside "
        "torch.compile there are no guards to pay for.",
    ),
)

_BACKWARD = re.compile(r"(\w{1,100}?)Backward\d{0,3}")
_BACKWARDS = {
    "AddBackward": "It passes the gradient on to both inputs, and sums it if one was broadcast.",
    "SubBackward": "It passes the gradient on to both inputs, to one with its sign flipped.",
    "MmBackward": "Up to two matmuls: one for the gradient of each input.",
    "BmmBackward": "Up to two batches of matmuls: one for the gradient of each input.",
    "AddmmBackward": "Up to two matmuls, one for the gradient of each matrix, and a sum for the bias.",
    "ToCopyBackward": "It converts the gradient back to the input's type or device.",
    "CloneBackward": "It passes the gradient on.",
    "ExpandBackward": "It sums the gradient over the dimensions that were repeated.",
    "MeanBackward": "It divides the gradient by the number of elements and repeats it for each.",
    "SumBackward": "It repeats the gradient for each element: a view.",
    "CatBackward": "It splits the gradient into the parts that were joined: views.",
    "SliceBackward": "It makes zeros of the whole size and copies the gradient into the slice.",
    "SelectBackward": "It makes zeros of the whole size and copies the gradient into one index.",
    "SplitBackward": "It joins the parts' gradients, by a copy.",
    "UnbindBackward": "It stacks the parts' gradients, by a copy.",
    "EmbeddingBackward": "It adds the gradients to the rows that were looked up.",
}
_BACKWARDS |= dict.fromkeys(
    (f"{name}Backward" for name in "T Transpose Permute Unsqueeze Squeeze Alias Detach".split()),  # noqa: SIM905
    "It gives the gradient the shape of the input: a view, metadata only.",
)
_BACKWARDS |= dict.fromkeys(
    ("ViewBackward", "UnsafeViewBackward", "ReshapeAliasBackward"),
    "It gives the gradient the shape of the input: a view, or a copy if its strides do not allow one.",
)


def operator(name: str) -> str | None:
    """What an operator of this name does; None if that is not known."""
    if name.startswith("aten::"):
        own = _aten(name[6:])
        if own is not None:
            return own
    if name in _OTHERS:
        return _OTHERS[name]
    if backward := _BACKWARD.fullmatch(name):
        return _backward(backward[1])
    return _of(_FAMILIES, name) or compiled(name)


def compiled(name: str) -> str | None:
    """What a call of compiled code is, whether recorded as an operator or as an annotation; None for
    others."""
    return _of(_COMPILED, name)


def _of(families: tuple[_Family, ...], name: str) -> str | None:
    found = ((pattern.match(name[:300]), text) for pattern, text in families)
    return next((text.format(*match.groups()) for match, text in found if match), None)


def is_view(name: str) -> bool:
    """Whether an operator of this name makes a view of the same memory, and never copies."""
    return VIEW in (operator(name) or "")


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
    found = re.fullmatch(r"aten::_scaled_dot_product_(flash|efficient|cudnn)_attention\w*", name)
    if found:
        return {"flash": "flash", "efficient": "memory-efficient", "cudnn": "cuDNN"}[found[1]]
    return "math" if name.startswith("aten::_scaled_dot_product_attention_math") else None


def _aten(name: str) -> str | None:
    if name in _ATEN:
        return _ATEN[name]
    base = name[:-1] if name.endswith("_") and not name.endswith("__") else ""
    if base in _ATEN:
        return f"{_first(_ATEN[base])} {VIEW_IN_PLACE if VIEW in _ATEN[base] else IN_PLACE}"
    if name.endswith("_backward") and name[:-9] in _ATEN:
        second = ONE_KERNEL if ONE_KERNEL in _ATEN[name[:-9]] else "On a GPU it takes one kernel or several."
        return f"The gradient of {name[:-9]}, for the backward pass. {second}"
    return None


def _first(text: str) -> str:
    """The first sentence."""
    return text.partition(". ")[0].rstrip(".") + "."


def _backward(forward: str) -> str:
    own = _BACKWARDS.get(f"{forward}Backward")
    own = own or "It computes the gradients of that op's inputs with the ops that it calls."
    if forward.endswith("Function"):
        return f"The backward of {forward}, a torch.autograd.Function. {own}"
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", forward).lower()
    return f"The backward of one call of {snake}. {own}"
