#!/usr/bin/env python3
"""Writes tests/golden/io/: the verdicts of the safetensors library itself (the Rust crate in its Python wheel) on files.

    scripts/golden-safetensors.py [FOLDER]        needs safetensors and torch

verdicts.txt        files made by hand: accept or reject, name, bytes (\\xNN; \\*COUNT*BYTE for a run of one byte)
mutations.txt       thousands of copies of one valid file, each with one change: the kind, then 1 (accepted) or 0 for each copy
values.safetensors  tensors of every dtype that heddle reads, with values that are hard to read, and tensors of other dtypes
values.txt          these values: tensor, dtype, shape, then each as hexadecimal floating point or integer
"""

import os
import re
import struct
import sys

import safetensors
import torch
from safetensors.torch import save

HEADER_LIMIT = 100_000_000
U64 = 2**64


def file(header, data=b"", length=None):
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def entry(dtype="F32", shape="[1]", offsets="[0,4]", more=""):
    return '{"dtype":"%s","shape":%s,"data_offsets":%s%s}' % (dtype, shape, offsets, more)


def accepted(content):
    try:
        safetensors.deserialize(content)
        return True
    except safetensors.SafetensorError:
        return False


def cases():
    """Yields names and files. `one` has a tensor of four bytes, `two` a second one."""
    one, data = '{"a":' + entry() + "}", b"\0\1\2\3"
    two = '{"a":' + entry() + ',"b":%s}'
    second = entry(offsets="[4,8]")

    def tensor(**fields):
        return file('{"a":' + entry(**fields) + "}", data)

    def fields(text, content=data):
        return file('{"a":{' + text + "}}", content)

    # Accepted by the format.
    yield "one tensor", file(one, data)
    yield "two tensors", file(two % second, data * 2)
    yield "no tensor", file("{}")
    yield "trailing spaces", file(one + "   ", data)
    yield "trailing newline", file(one + "\n", data)
    yield "trailing tab and return", file(one + "\t\r", data)
    yield "blanks inside", file('{\t"a"\n:\r' + entry() + " }", data)
    yield "zero extent", tensor(shape="[0]", offsets="[0,0]")[:-4]
    yield "zero extent after others", file(two % entry(shape="[2,0]", offsets="[4,4]"), data)
    yield "two empty tensors at one place", file(
        '{"a":%s,"b":%s}' % (entry(shape="[0]", offsets="[0,0]"), entry(shape="[0,3]", offsets="[0,0]"))
    )
    yield "scalar", tensor(shape="[]")
    yield "eight axes", tensor(shape="[1,1,1,1,1,1,1,1]")
    yield "unknown field", tensor(more=',"x":1')
    yield "unknown field holding everything", tensor(more=',"x":[null,true,-1,2.5e3,"s",{"y":[]}]')
    yield "unknown field, tiny number", tensor(more=',"x":1e-999')
    yield "unknown field, integer above 64 bits", tensor(more=',"x":' + "9" * 30)
    yield "metadata null", file('{"__metadata__":null}')
    yield "metadata empty", file('{"__metadata__":{}}')
    yield "metadata", file('{"__metadata__":{"format":"pt","":""},"a":' + entry() + "}", data)
    yield "metadata last", file('{"a":' + entry() + ',"__metadata__":{"k":"v"}}', data)
    yield "header order is not data order", file('{"b":%s,"a":%s}' % (second, entry()), data * 2)
    yield "NUL in a name", file(one.replace('"a"', '"a\\u0000b"'), data)
    yield "empty name", file(one.replace('"a"', '""'), data)
    yield "DEL in a name", file(one.replace('"a"', '"\x7f"'), data)
    yield "name beyond the first plane", file(one.replace('"a"', '"\U0001f600"'), data)
    yield "name of two surrogates", file(one.replace('"a"', '"\\ud83d\\ude00"'), data)
    yield "escaped field name", file(one.replace("dtype", "dty\\u0070e"), data)
    yield "escaped metadata key", file('{"__metadata\\u005f_":{"a":"b"}}')
    yield "header of 8 n bytes", file(one + " " * (-len(one) % 8), data)
    yield "header of 8 n + 1 bytes", file(one + " " * ((1 - len(one)) % 8), data)
    yield "nested 127 deep", tensor(more=',"x":' + "[" * 125 + "]" * 125)
    for dtype, bits in (
        ("F64", 64), ("F32", 32), ("F16", 16), ("BF16", 16), ("I64", 64), ("I32", 32), ("U8", 8), ("BOOL", 8), ("U64", 64),
        ("U32", 32), ("U16", 16), ("I16", 16), ("I8", 8), ("C64", 64), ("F8_E5M2", 8), ("F8_E4M3", 8), ("F8_E8M0", 8),
        ("F8_E4M3FNUZ", 8), ("F8_E5M2FNUZ", 8), ("F6_E2M3", 6), ("F6_E3M2", 6), ("F4", 4),
    ):  # fmt: skip
        yield "dtype " + dtype, file('{"a":' + entry(dtype, "[4]", "[0,%d]" % (bits // 2)) + "}", b"\1" * (bits // 2))

    # Accepted by the reference; heddle is stricter.
    yield "leading space", file(" " + one, data)
    yield "leading newline", file("\n" + one, data)
    yield "exact duplicate tensor", file(two.replace('"b"', '"a"') % entry(), data)
    yield "duplicate metadata key", file('{"__metadata__":{"a":"b","a":"c"}}')
    yield "duplicate unknown field", tensor(more=',"x":1,"x":2')
    yield "duplicate key inside an unknown field", tensor(more=',"x":{"y":1,"y":2}')
    yield "nine axes", tensor(shape="[1,1,1,1,1,1,1,1,1]")
    yield "extent of 2^63 beside a zero", tensor(shape="[0,9223372036854775808]", offsets="[0,0]")[:-4]
    yield "tensor as an array", file('{"a":["F32",[1],[0,4]]}', data)
    yield "dtype as an object", fields('"dtype":{"F32":null},"shape":[1],"data_offsets":[0,4]')

    # Refused.
    yield "empty file", b""
    yield "seven bytes", b"\1\0\0\0\0\0\0"
    yield "length 0", file("")
    yield "length 0 before data", file(one, data, 0)
    yield "length beyond the file", file(one, data, len(one) + 5)
    yield "length cuts the header", file(one, data, len(one) - 1)
    yield "length 2^63", file(one, data, 2**63)
    yield "length 2^64 - 1", file(one, data, U64 - 1)
    yield "length one above the limit", file(one, data, HEADER_LIMIT + 1)
    yield "trailing NUL", file(one + "\0", data)
    yield "NUL before the data", file("{}\0\0\0\0\0\0")
    yield "raw NUL in a name", file(one.replace('"a"', '"a\0b"'), data)
    yield "bad UTF-8 in a name", file(one.encode().replace(b'"a"', b'"\xff"'), data)
    yield "overlong UTF-8 in a name", file(one.encode().replace(b'"a"', b'"\xc0\xaf"'), data)
    yield "surrogate as UTF-8 in a name", file(one.encode().replace(b'"a"', b'"\xed\xa0\x80"'), data)
    yield "bad UTF-8 after the header", file(one.encode() + b"\xff", data)
    yield "byte-order mark", file("\ufeff" + one, data)
    yield "no-break space after the header", file(one + "\u00a0", data)
    yield "form feed after the header", file(one + "\f", data)
    yield "array header", file("[]")
    yield "string header", file('"a"')
    yield "number header", file("1")
    yield "null header", file("null")
    yield "two headers", file(one + "{}", data)
    yield "comment", file(one + "/**/", data)
    yield "trailing comma", file('{"a":' + entry() + ",}", data)
    yield "single quotes", file(one.replace('"', "'"), data)
    yield "control character in a name", file(one.replace('"a"', '"\1"'), data)
    yield "lone high surrogate", file(one.replace('"a"', '"\\ud800"'), data)
    yield "lone low surrogate", file(one.replace('"a"', '"\\udc00"'), data)
    yield "lone surrogate in an unknown field", tensor(more=',"x":"\\ud800"')
    yield "one byte too many", file(one, data + b"\0")
    yield "one byte too few", file(one, data[:-1])
    yield "data without tensors", file("{}", data)
    yield "hole at the start", tensor(offsets="[4,8]") + data
    yield "hole between", file(two % entry(offsets="[8,12]"), data * 3)
    yield "overlap", file(two % entry(offsets="[2,6]"), data + b"\0\0")
    yield "identical ranges", file(two % entry(), data)
    yield "reversed offsets", tensor(offsets="[4,0]")
    yield "empty tensor inside another", file(two % entry(shape="[0]", offsets="[2,2]"), data)
    yield "size above the shape", tensor(shape="[1]", offsets="[0,8]") + data
    yield "size below the shape", tensor(shape="[2]")
    yield "shape overflow", tensor(shape="[4294967296,4294967296,4294967296]")
    yield "shape overflow to the right size", tensor(shape="[4611686018427387905]")
    yield "shape overflow beside a zero", tensor(shape="[9223372036854775808,2,0]", offsets="[0,0]")[:-4]
    yield "bits overflow", tensor(dtype="F64", shape="[288230376151711744]", offsets="[0,0]")[:-4]
    yield "extent 2^64", tensor(shape="[18446744073709551616,0]", offsets="[0,0]")[:-4]
    yield "offset above 2^64", tensor(offsets="[0,18446744073709551620]")
    yield "negative extent", tensor(shape="[-1]")
    yield "minus zero extent", tensor(shape="[-0]", offsets="[0,0]")[:-4]
    yield "fractional extent", tensor(shape="[1.0]")
    yield "extent with exponent", tensor(shape="[1e0]")
    yield "string extent", tensor(shape='["1"]')
    yield "nested extent", tensor(shape="[[1]]")
    yield "shape is a number", tensor(shape="1")
    yield "shape is null", tensor(shape="null")
    yield "one offset", tensor(offsets="[4]")
    yield "three offsets", tensor(offsets="[0,4,4]")
    yield "offsets are an object", tensor(offsets='{"0":0,"1":4}')
    yield "fractional offset", tensor(offsets="[0,4.0]")
    yield "negative offset", tensor(offsets="[-4,0]")
    yield "unknown dtype", tensor(dtype="F33")
    yield "lower-case dtype", tensor(dtype="f32")
    yield "empty dtype", tensor(dtype="")
    yield "dtype is a number", fields('"dtype":1,"shape":[1],"data_offsets":[0,4]')
    yield "F4 of half a byte", file('{"a":' + entry("F4", "[1]", "[0,1]") + "}", b"\0")
    yield "no dtype", fields('"shape":[1],"data_offsets":[0,4]')
    yield "no shape", fields('"dtype":"F32","data_offsets":[0,4]')
    yield "no offsets", fields('"dtype":"F32","shape":[1]')
    yield "empty tensor entry", fields("")
    yield "duplicate dtype", tensor(more=',"dtype":"F32"')
    yield "duplicate shape", tensor(more=',"shape":[1]')
    yield "duplicate offsets", tensor(more=',"data_offsets":[0,4]')
    yield "duplicate metadata", file('{"__metadata__":{},"__metadata__":{}}')
    yield "duplicate tensor with another range", file(two.replace('"b"', '"a"') % second, data * 2)
    yield "metadata is an array", file('{"__metadata__":[]}')
    yield "metadata value is a number", file('{"__metadata__":{"a":1}}')
    yield "metadata value is null", file('{"__metadata__":{"a":null}}')
    yield "metadata value is an object", file('{"__metadata__":{"a":{}}}')
    yield "metadata is a tensor", file(one.replace('"a"', '"__metadata__"'), data)
    yield "tensor is null", file('{"a":null}')
    yield "tensor is a number", file('{"a":1}')
    yield "number too large", tensor(more=',"x":1e999')
    yield "integer of 400 digits", tensor(more=',"x":' + "9" * 400)
    yield "number with a leading zero", tensor(shape="[01]")
    yield "NaN", tensor(more=',"x":NaN')
    yield "nested 128 deep", tensor(more=',"x":' + "[" * 126 + "]" * 126)
    yield "nested 200,000 deep", tensor(more=',"x":' + "[" * 200_000 + "]" * 200_000)


def escaped(content):
    text = "".join(chr(b) if 32 <= b < 127 and b != 92 else "\\x%02x" % b for b in content)
    return re.sub(r"([^\\])\1{99,}", lambda run: "\\*%d*%s" % (len(run[0]), run[1]), text)


def mutations():
    """Yields a file of three tensors, then its changed copies by kind, in an order that the test repeats."""
    header = '{"__metadata__":{"format":"pt"},"a.weight":%s,"a.bias":%s,"ids":%s}' % (
        entry("F32", "[2,3]", "[0,24]"), entry("F16", "[3]", "[24,30]"), entry("U8", "[10]", "[30,40]"),
    )  # fmt: skip
    header = (header + " " * (-len(header) % 8)).encode()
    base = file(header, bytes(range(40)))
    yield "base", [base]
    end = 8 + len(header)
    yield "prefix", [base[:n] for n in range(len(base))]
    yield "flip", [base[:i] + bytes([base[i] ^ 1 << bit]) + base[i + 1 :] for i in range(end) for bit in range(8)]
    substitutes = b'\0 "09-.,:[]{}\\en\xff\xc3'
    yield "replace", [base[:i] + bytes([b]) + base[i + 1 :] for i in range(8, end) for b in substitutes]
    yield "delete", [file(header[:i] + header[i + 1 :], base[end:]) for i in range(len(header))]
    yield "double", [file(header[: i + 1] + header[i:], base[end:]) for i in range(len(header))]


def value_tensors():
    nan, inf = float("nan"), float("inf")
    f64 = [0.0, -0.0, 1.0, -1.5, 0.1, 5e-324, -2.2250738585072014e-308, 1.7976931348623157e308, inf, -inf, nan, 3.5]
    f32 = [0.0, -0.0, 1.0, -1.5, 0.1, 1e-45, -1.1754943508222875e-38, 3.4028234663852886e38, inf, -inf, nan, 16777217.0]
    f16 = [0.0, -0.0, 1.0, -1.5, 0.1, 5.960464477539063e-08, -6.097555160522461e-05, 65504.0, inf, -inf, nan, 2049.0]
    tensors = {
        "f64": torch.tensor(f64, dtype=torch.float64).reshape(3, 4),
        "f32": torch.tensor(f32, dtype=torch.float32).reshape(2, 3, 2),
        "f16": torch.tensor(f16, dtype=torch.float16),
        "bf16": torch.tensor(f32, dtype=torch.float32).to(torch.bfloat16),
        "i64": torch.tensor([[0, -1, 2**63 - 1, -(2**63), 2**31, 2**53 + 1]]),
        "i32": torch.tensor([0, -1, 2**31 - 1, -(2**31), 16777217], dtype=torch.int32),
        "u8": torch.tensor([0, 1, 127, 128, 255], dtype=torch.uint8),
        "bool": torch.tensor([True, False, True]),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(2, 0, 3),
        "name with \"quotes\", \\, \t and é": torch.tensor([1.0]),
    }
    others = (
        torch.uint64, torch.uint32, torch.uint16, torch.int16, torch.int8, torch.complex64, torch.float8_e5m2,
        torch.float8_e4m3fn, torch.float8_e8m0fnu, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    )  # fmt: skip
    for dtype in others:
        tensors["other." + str(dtype)[6:]] = torch.ones(3).to(dtype)
    return tensors


def main(folder):
    os.makedirs(folder, exist_ok=True)
    said = "# scripts/golden-safetensors.py, safetensors %s\n" % safetensors.__version__
    with open(os.path.join(folder, "verdicts.txt"), "w") as out:
        out.write(said)
        for name, content in cases():
            out.write("%s\t%s\t%s\n" % ("accept" if accepted(content) else "reject", name, escaped(content)))
    with open(os.path.join(folder, "mutations.txt"), "w") as out:
        out.write(said)
        for kind, files in mutations():
            out.write("%s\t%s\n" % (kind, escaped(files[0]) if kind == "base" else "".join(str(int(accepted(f))) for f in files)))
    tensors = value_tensors()
    with open(os.path.join(folder, "values.safetensors"), "wb") as out:
        out.write(save(tensors, {"format": "pt", "made by": "the reference"}))
    with open(os.path.join(folder, "values.txt"), "w") as out:
        out.write(said)
        for name, x in tensors.items():
            if name.startswith("other."):
                continue
            shape = "x".join(map(str, x.shape)) or "scalar"
            values = [v.hex() if isinstance(v, float) else str(int(v)) for v in x.reshape(-1).tolist()]
            out.write("\t".join([escaped(name.encode()), str(x.dtype)[6:], shape, " ".join(values)]) + "\n")


main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "io"))
