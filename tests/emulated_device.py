"""An emulated GPU: the CPU's memory under another name, with kernels that refuse what CUDA's refuse.

PyTorch's fake tensors cannot be indexed without CUDA; here every operation gives its values. What CUDA has
and the CPU lacks (the fused LSTM cell, autocast of another device) is written out.
"""

import ctypes
from functools import cache, partial
from operator import attrgetter
from types import SimpleNamespace
from typing import ClassVar
from weakref import WeakSet

import torch
from torch.utils import backend_registration as backend

from sameloss import device
from sameloss.languages.grammars import pcfg
from sameloss.measures.flatness import gradient_norms, sharpness
from sameloss.studies.decision_lists import experiment as decision_lists

DEVICE = "emulated"

INDEXING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")
COPYING = ("aten::_to_copy", "aten::copy_", "aten::_copy_from")
CPU, OTHER = 1, 12
"""DLPack's numbers of the devices."""

CPU_DEVICE = torch.device("cpu")


LOWERED = ("linear", "matmul", "mm", "addmm", "bmm", "baddbmm", "scaled_dot_product_attention")
"""Operations that autocast computes in bfloat16."""

RAISED = ("layer_norm", "softmax.int", "log_softmax.int", "cross_entropy_loss")
"""Operations that it computes in float32."""


def emulate():
    """Register the device in this process, for good, as the one that the library takes for a GPU."""
    torch.set_num_threads(1)
    backend._setup_privateuseone_for_python_backend(DEVICE, Module())
    emulate.libraries = everything, some = (
        torch.library.Library("_", "IMPL"),
        torch.library.Library("aten", "IMPL"),
    )
    everything.fallback(kernel, "PrivateUse1")
    some.impl("_thnn_fused_lstm_cell", lstm_cell, "PrivateUse1")
    some.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward, "PrivateUse1")
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for name in OVERRIDABLE:
        some.impl(name, partial(kernel, getattr(torch.ops.aten, name).default), "PrivateUse1")
    for names, dtypes in (
        (LOWERED, (torch.float32, torch.bfloat16)),
        (RAISED, (torch.bfloat16, torch.float32)),
    ):
        for name in names:
            op = attrgetter(name)(torch.ops.aten)
            some.impl(name, partial(recast, op, *dtypes), "AutocastPrivateUse1")
    for table in (gradient_norms.CHUNK_BYTES, sharpness.GRADIENT_BYTES, pcfg.CHUNK_BYTES):
        table[DEVICE] = table["cpu"]
    device.ACCELERATOR, decision_lists.Generator = DEVICE, Generator


class Module(backend._DummyBackendModule):
    """What the library asks of `torch.cuda`; the device draws nothing, so its generator has no state."""

    def get_amp_supported_dtype(self):
        return [torch.bfloat16]

    def is_available(self):
        return True

    def is_bf16_supported(self, including_emulation):
        return not including_emulation

    def get_device_name(self):
        return DEVICE

    def get_device_properties(self, number):
        return SimpleNamespace(total_memory=80e9)

    def get_rng_state(self, number):
        return torch.empty(0)

    def set_rng_state(self, state, number):
        assert not len(state)

    def synchronize(self):
        pass

    def reset_peak_memory_stats(self):
        pass

    def max_memory_allocated(self):
        return 0

    def memory_reserved(self):
        return 0


def recast(op, given, wanted, *args, **kwargs):
    """Compute in another precision, as autocast does."""

    def cast(value):
        return value.to(wanted) if isinstance(value, torch.Tensor) and value.dtype == given else value

    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
        return op(*mapped(cast, args), **{key: mapped(cast, value) for key, value in kwargs.items()})


def lstm_cell(from_input, from_hidden, c, input_bias=None, hidden_bias=None):
    """One step of an LSTM from the products with its weights: h, c and the activated gates."""
    gates = sum(part for part in (from_input, from_hidden, input_bias, hidden_bias) if part is not None)
    take, keep, new, show = gates.chunk(4, 1)
    take, keep, new, show = take.sigmoid(), keep.sigmoid(), new.tanh(), show.sigmoid()
    c = keep * c + take * new
    return show * c.tanh(), c, torch.cat([take, keep, new, show], 1)


def lstm_cell_backward(of_h, of_c, before, c, gates, has_bias):
    """Gradients of the gates' inputs, of the state before and of the bias."""
    take, keep, new, show = gates.chunk(4, 1)
    of_show = torch.zeros_like(c) if of_h is None else of_h * c.tanh()
    through = 0 if of_c is None else of_c
    through = through if of_h is None else through + of_h * show * (1 - c.tanh() ** 2)
    slopes = [
        through * new * take * (1 - take),
        through * before * keep * (1 - keep),
        through * take * (1 - new**2),
        of_show * show * (1 - show),
    ]
    of_gates = torch.cat(slopes, 1)
    return of_gates, through * keep, of_gates.sum(0) if has_bias else None


class Generator(torch.Generator):
    """A generator of the device, which draws what one of the CPU with its seed draws."""

    made: ClassVar = WeakSet()

    def __new__(cls, device=DEVICE):
        made = super().__new__(cls if device == DEVICE else torch.Generator)
        cls.made.add(made)
        return made

    @property
    def device(self):
        return torch.device(DEVICE)

    def is_(self, other):
        """Tell by its state, as the dispatcher passes on another object."""
        return torch.equal(self.get_state(), other.get_state())


class Header(ctypes.Structure):
    """The beginning of DLPack's description of a tensor."""

    _fields_ = (("data", ctypes.c_void_p), ("device", ctypes.c_int32))


def relabelled(tensor, device):
    """Return a tensor of another device in the same memory."""
    capsule = torch._C._to_dlpack(tensor)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    Header.from_address(pointer(capsule, b"dltensor")).device = device
    return torch._C._from_dlpack(capsule)


OVERRIDABLE = {
    "convolution_overrideable": torch.ops.aten.convolution.default,
    "convolution_backward_overrideable": lambda grad, input, weight, *rest: (
        torch.ops.aten.convolution_backward(grad, input, weight, [len(weight)], *rest)
    ),
}
"""Operations that a device has to bring along."""


def kernel(op, *args, **kwargs):
    """Compute any operation on the CPU, in the same memory."""
    name, twins = op._schema.name, {}
    args = list(map(_as_tensor, args, numbered(op)))
    _refuse_mixed(name, args, kwargs)

    def inward(value):
        if isinstance(value, torch.device):
            return CPU_DEVICE
        if not isinstance(value, torch.Tensor) or value.device.type != DEVICE:
            return value
        full = value.numel()  # an empty one may be about to grow, which shared memory cannot
        twin = relabelled(value, CPU) if full else torch.empty_like(value, device="cpu")
        twins[id(twin)] = twin, value
        return twin

    def outward(result):
        if not isinstance(result, torch.Tensor):
            return result
        twin, original = twins.get(id(result), (result, None))
        if result._is_zerotensor():  # of forward differentiation: it has no memory to share
            result = torch.zeros(result.shape, dtype=result.dtype)
        if original is None:
            return result if leaves_device else relabelled(result, OTHER)
        if twin.shape != original.shape:
            original.data = relabelled(twin, OTHER)
        return original

    leaves_device = name == "aten::_to_copy" and str(kwargs.get("device")) == "cpu"
    inside = mapped(inward, args)
    if name == "aten::_copy_from":
        inside[1].copy_(inside[0])
        return args[1]
    options = {key: mapped(inward, value) for key, value in kwargs.items()}
    return mapped(outward, OVERRIDABLE.get(name.removeprefix("aten::"), op)(*inside, **options))


def mapped(function, value):
    """Apply a function to a value, or to all in a list: faster than trees."""
    if isinstance(value, list | tuple):
        return type(value)([mapped(function, part) for part in value])
    return function(value)


@cache
def numbered(op):
    """Tell for each argument of an operation whether it is a tensor, given perhaps as a number."""
    return [str(argument.type) in ("Tensor", "Optional[Tensor]") for argument in op._schema.arguments]


def _as_tensor(value, is_tensor):
    """Undo what the dispatcher does to the 2 of `tensor * 2`."""
    if not is_tensor or not isinstance(value, bool | int | float):
        return value
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)  # as Python's float


def _refuse_mixed(name, args, kwargs):
    """Refuse tensors of two devices but for copies, single numbers, and indices on the CPU."""
    here = []

    def look(leaf):
        if isinstance(leaf, torch.Generator) and not any(made.is_(leaf) for made in Generator.made):
            raise RuntimeError(f"{name}: the device draws no numbers from a generator of the CPU")
        if isinstance(leaf, torch.Tensor) and leaf.ndim and leaf.device.type != DEVICE:
            here.append(leaf)

    mapped(look, [*args, *kwargs.values()])
    indexed = [args[0], *args[2:3]] if name in INDEXING else here
    if name not in COPYING and any(x is y for x in here for y in indexed):
        raise RuntimeError(f"{name}: tensors of two devices")
