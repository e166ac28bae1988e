"""wire.py - just enough of protobuf's bytes to ask a server for its reflection before anything is known of its messages."""


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def fields(data):
    """The fields of a message of texts, messages and small numbers, as (number, value)."""
    def read(at):
        number = shift = 0
        while True:
            number |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return number, at

    at = 0
    while at < len(data):
        tag, at = read(at)
        value, at = read(at)
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value
        yield tag >> 3, value
