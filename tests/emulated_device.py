"""An emulated GPU: the CPU's memory under another device's name, with kernels that refuse what CUDA's refuse.

PyTorch's fake tensors cannot be indexed without CUDA; here every operation gives its values.
"""

import ctypes

import torch
from torch.utils import _pytree
from torch.utils import backend_registration as backend

from sameloss.measures.flatness import gradient_norms

DEVICE = "emulated"

INDEXING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")
COPYING = ("aten::_to_copy", "aten::copy_", "aten::_copy_from")
CPU, OTHER = 1, 12
"""DLPack's numbers of the devices."""


def emulate():
    """Register the device in this process, for good."""
    torch.set_num_threads(1)
    backend._setup_privateuseone_for_python_backend(DEVICE, Module())
    emulate.library = torch.library.Library("_", "IMPL")
    emulate.library.fallback(kernel, "PrivateUse1")
    gradient_norms.CHUNK_BYTES[DEVICE] = gradient_norms.CHUNK_BYTES["cpu"]


class Module(backend._DummyBackendModule):
    def get_amp_supported_dtype(self):
        return [torch.bfloat16]


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


def kernel(op, *args, **kwargs):
    """Compute any operation on the CPU, in the same memory."""
    name, twins = op._schema.name, {}
    args = [_as_tensor(*pair) for pair in zip(args, op._schema.arguments, strict=False)]
    leaves, form = _pytree.tree_flatten((args, kwargs))
    _refuse_mixed(name, args, leaves)

    def inward(value):
        if isinstance(value, torch.device):
            return torch.device("cpu")
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
        if original is None:
            return result if leaves_device else relabelled(result, OTHER)
        if twin.shape != original.shape:
            original.data = relabelled(twin, OTHER)
        return original

    leaves_device = name == "aten::_to_copy" and str(kwargs.get("device")) == "cpu"
    inside, options = _pytree.tree_unflatten([inward(leaf) for leaf in leaves], form)
    if name == "aten::_copy_from":
        inside[1].copy_(inside[0])
        return args[1]
    return _pytree.tree_map(outward, op(*inside, **options))


def _as_tensor(value, argument):
    """Undo what the dispatcher does to the 2 of `tensor * 2`."""
    number = isinstance(value, bool | int | float) and str(argument.type) in ("Tensor", "Optional[Tensor]")
    return torch.tensor(value) if number else value


def _refuse_mixed(name, args, leaves):
    """Refuse tensors of two devices but for copies, single numbers, and indices on the CPU."""
    if any(isinstance(leaf, torch.Generator) for leaf in leaves):
        raise RuntimeError(f"{name}: the device draws no numbers from a generator of the CPU")
    here = [x for x in leaves if isinstance(x, torch.Tensor) and x.ndim and x.device.type != DEVICE]
    indexed = [args[0], *args[2:3]] if name in INDEXING else here
    if name not in COPYING and any(x is y for x in here for y in indexed):
        raise RuntimeError(f"{name}: tensors of two devices")
