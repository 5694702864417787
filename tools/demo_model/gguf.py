"""Writer and reader of the part of GGUF version 3 that the demo model needs (F32 and Q8_0)."""

from __future__ import annotations

import struct
from typing import Any, BinaryIO, Dict, List, Tuple

import numpy as np

MAGIC, VERSION, ALIGNMENT = b"GGUF", 3, 32
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TENSOR_F32, TENSOR_Q8_0 = 0, 8
QUANT_BLOCK = 32


def quantise_q8_0(values: np.ndarray) -> bytes:
    """Blocks of 32: scale = max|x| / 127 as float16, then round(x / scale) as int8."""
    blocks = values.astype(np.float32).reshape(-1, QUANT_BLOCK)
    scale = np.abs(blocks).max(axis=1) / np.float32(127)
    inverse = np.where(scale > 0, np.float32(1) / np.where(scale > 0, scale, 1), np.float32(0))
    scaled = blocks * inverse[:, None]
    quants = np.copysign(np.floor(np.abs(scaled) + np.float32(0.5)), scaled).astype(np.int8)
    packed = np.zeros(len(blocks), dtype=[("scale", "<f2"), ("quants", "i1", QUANT_BLOCK)])
    packed["scale"], packed["quants"] = scale.astype(np.float16), quants
    return packed.tobytes()


def dequantise_q8_0(data: bytes, count: int) -> np.ndarray:
    packed = np.frombuffer(data, dtype=[("scale", "<f2"), ("quants", "i1", QUANT_BLOCK)],
                           count=count // QUANT_BLOCK)
    return (packed["quants"].astype(np.float32)
            * packed["scale"].astype(np.float32)[:, None]).reshape(-1)


def _string(text: str) -> bytes:
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def _value(kind: int, value: Any) -> bytes:
    if kind == STRING:
        return _string(value)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], value)


def write(path: str, metadata: List[Tuple[str, Any, Any]],
          tensors: List[Tuple[str, np.ndarray, int]]) -> None:
    """metadata: (key, kind, value) with kind (ARRAY, element kind) for lists; tensors in order."""
    out = [MAGIC, struct.pack("<IQQ", VERSION, len(tensors), len(metadata))]
    for key, kind, value in metadata:
        out.append(_string(key))
        if isinstance(kind, tuple):
            out.append(struct.pack("<IIQ", ARRAY, kind[1], len(value)))
            out += [_value(kind[1], v) for v in value]
        else:
            out += [struct.pack("<I", kind), _value(kind, value)]
    blobs, offset = [], 0
    for name, array, kind in tensors:
        blob = array.astype("<f4").tobytes() if kind == TENSOR_F32 else quantise_q8_0(array)
        dims = array.shape[::-1]
        out.append(_string(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
                   + struct.pack("<IQ", kind, offset))
        blob += b"\0" * (-len(blob) % ALIGNMENT)
        blobs.append(blob)
        offset += len(blob)
    head = b"".join(out)
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % ALIGNMENT) + b"".join(blobs))


def _read(file: BinaryIO, form: str) -> Any:
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]


def _read_value(file: BinaryIO, kind: int) -> Any:
    if kind == STRING:
        return file.read(_read(file, "<Q")).decode("utf-8")
    if kind == ARRAY:
        element, count = _read(file, "<I"), _read(file, "<Q")
        return [_read_value(file, element) for _ in range(count)]
    return _read(file, {U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind])


def read(path: str) -> Tuple[Dict[str, Any], Dict[str, np.ndarray]]:
    """The metadata and all tensors as float32 arrays."""
    with open(path, "rb") as file:
        if file.read(4) != MAGIC or _read(file, "<I") != VERSION:
            raise ValueError(f"{path}: not a GGUF file of version {VERSION}")
        tensor_count, key_count = _read(file, "<Q"), _read(file, "<Q")
        metadata = {}
        for _ in range(key_count):
            key = _read_value(file, STRING)
            metadata[key] = _read_value(file, _read(file, "<I"))
        infos = []
        for _ in range(tensor_count):
            name = _read_value(file, STRING)
            dims = [_read(file, "<Q") for _ in range(_read(file, "<I"))]
            infos.append((name, dims[::-1], _read(file, "<I"), _read(file, "<Q")))
        start = file.tell() + (-file.tell() % ALIGNMENT)
        data = file.seek(start) and file.read()
    tensors = {}
    for name, shape, kind, offset in infos:
        count = int(np.prod(shape))
        if kind == TENSOR_F32:
            flat = np.frombuffer(data, "<f4", count, offset)
        elif kind == TENSOR_Q8_0:
            flat = dequantise_q8_0(data[offset:], count)
        else:
            raise ValueError(f"{path}: tensor {name} has type {kind}; this reader knows F32 and Q8_0")
        tensors[name] = flat.reshape(shape)
    return metadata, tensors
