/* random_message.h - bytes of a random message of any type, as an encoder would write them. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/buffer.h"
#include "support/prng.h"

/* Append the fields of a message that nests at most depth levels more. Fields come in the order of
 * their numbers, or, one time in four, in any order and several times. */
void random_message(prng *random, const ProtobufCMessageDescriptor *descriptor, int depth,
                    tide_buffer *out);
