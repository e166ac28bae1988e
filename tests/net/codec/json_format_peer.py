#!/usr/bin/env python3
"""json_format_peer.py make DIR SEED COUNT | check DIR - Python's google.protobuf as the second opinion on JSON.

make   writes DIR/messages: COUNT random messages of every type in TYPES, each as bytes and as Python's JSON.
check  reads DIR/answers: for each of them the JSON made from the bytes and the bytes made from the JSON, and
       compares both with what Python makes of them.

A file is a row of blobs, each a length (four bytes, little endian) and so many bytes.
"""

import json
import os
import random
import struct
import sys

# The compiled messages are put into DIR by the test (protoc --python_out).
sys.path.insert(0, sys.argv[2])

from google.protobuf import json_format  # noqa: E402
from google.protobuf.descriptor import FieldDescriptor as F  # noqa: E402

import sample_pb2  # noqa: E402
from tidemark.agent.v1 import agent_pb2  # noqa: E402

TYPES = ["sample.v1.Everything"] + [
    "agent.v1." + name
    for name in sorted(agent_pb2.DESCRIPTOR.message_types_by_name)
    if name.endswith(("Request", "Response"))
]

INTEGERS = {
    F.TYPE_INT32: (-(2**31), 2**31 - 1),
    F.TYPE_SINT32: (-(2**31), 2**31 - 1),
    F.TYPE_SFIXED32: (-(2**31), 2**31 - 1),
    F.TYPE_INT64: (-(2**63), 2**63 - 1),
    F.TYPE_SINT64: (-(2**63), 2**63 - 1),
    F.TYPE_SFIXED64: (-(2**63), 2**63 - 1),
    F.TYPE_UINT32: (0, 2**32 - 1),
    F.TYPE_FIXED32: (0, 2**32 - 1),
    F.TYPE_UINT64: (0, 2**64 - 1),
    F.TYPE_FIXED64: (0, 2**64 - 1),
}
REALS = [0.0, 1.0, -1.5, 0.1, 1e300, 1e-300, 5e-324, 1e15, 123456789.125, 2.0**53, 1e22, float("inf"), float("-inf"),
         float("nan")]
LETTERS = ["a", "tide", '"', "\\", "/", "\n", "\u00e9", "\U0001f30a", "\x7f", "\x01", "\u2028", "\0", "_", " "]


def class_of(name):
    file = sample_pb2 if name.startswith("sample.") else agent_pb2
    return getattr(file, name.rsplit(".", 1)[1])


def scalar(chance, field):
    if field.type in INTEGERS:
        low, high = INTEGERS[field.type]
        return chance.choice([0, 1, low, high, chance.randint(low, high), chance.randint(0, 300)])
    if field.type == F.TYPE_DOUBLE:
        raw = struct.unpack("<d", chance.randbytes(8))[0]
        return chance.choice(REALS + [chance.random(), raw if raw == raw else 0.25])
    if field.type == F.TYPE_FLOAT:
        return chance.choice([0.0, 0.1, -3.25, 1e10, 3.4e38, 1e-40, float("inf"), float("nan"), chance.random()])
    if field.type == F.TYPE_BOOL:
        return chance.random() < 0.5
    if field.type == F.TYPE_STRING:
        return "".join(chance.choice(LETTERS) for _ in range(chance.randint(0, 8)))
    if field.type == F.TYPE_BYTES:
        return chance.randbytes(chance.randint(0, 40))
    assert field.type == F.TYPE_ENUM
    return chance.choice([value.number for value in field.enum_type.values] + [77])


def fill(chance, message, depth):
    for field in message.DESCRIPTOR.fields:
        if chance.random() < 0.4:
            continue
        value = getattr(message, field.name)
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if is_map:
            key, inner = field.message_type.fields
            for _ in range(chance.randint(0, 4)):
                if inner.type == F.TYPE_MESSAGE:
                    if depth > 0:
                        fill(chance, value[scalar(chance, key)], depth - 1)
                else:
                    value[scalar(chance, key)] = scalar(chance, inner)
        elif field.label == F.LABEL_REPEATED:
            for _ in range(chance.randint(0, 4)):
                if field.type == F.TYPE_MESSAGE:
                    if depth > 0:
                        fill(chance, value.add(), depth - 1)
                else:
                    value.append(scalar(chance, field))
        elif field.type == F.TYPE_MESSAGE:
            if depth > 0:
                value.SetInParent()
                fill(chance, value, depth - 1)
        else:
            setattr(message, field.name, scalar(chance, field))


def put(out, blob):
    out.write(struct.pack("<I", len(blob)) + blob)


def get(file):
    head = file.read(4)
    return file.read(struct.unpack("<I", head)[0]) if head else None


def make(directory, seed, count):
    chance = random.Random(seed)
    with open(os.path.join(directory, "messages"), "wb") as out:
        for _ in range(count):
            for name in TYPES:
                message = class_of(name)()
                fill(chance, message, 3)
                put(out, ("tidemark." + name).encode())
                put(out, message.SerializeToString())
                text = json_format.MessageToJson(
                    message,
                    including_default_value_fields=chance.random() < 0.5,
                    preserving_proto_field_name=chance.random() < 0.5,
                    indent=chance.choice([None, 2]),
                )
                put(out, text.encode())


def same(message, other):
    """Equal, also where NaN is involved."""
    return message.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)


def check(directory):
    compared = 0
    with open(os.path.join(directory, "messages"), "rb") as asked, open(
        os.path.join(directory, "answers"), "rb"
    ) as answered:
        while True:
            name = get(asked)
            if name is None:
                break
            cls = class_of(name.decode()[len("tidemark.") :])
            message = cls.FromString(get(asked))
            get(asked)
            our_json, our_bytes = get(answered), get(answered)
            wanted = json.loads(json_format.MessageToJson(message, including_default_value_fields=True))
            assert json.loads(our_json) == wanted, f"{name}: JSON {our_json}, want {wanted}"
            assert same(json_format.Parse(our_json, cls()), message), f"{name}: JSON {our_json} means something else"
            assert same(cls.FromString(our_bytes), message), f"{name}: bytes mean something else: {message}"
            compared += 1
    print(compared)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        check(sys.argv[2])
