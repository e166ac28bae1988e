/* messages.h - everything about the bodies of calls: bounded decoding, JSON, compression,
 * errors. */
#pragma once

#include "net/codec/inflate.h"
#include "net/codec/json_proto.h"
#include "net/codec/protobuf_guard.h"
#include "net/codec/protobuf_scan.h"
#include "net/codec/protobuf_wire.h"
#include "net/codec/status_details.h"
