/* messages.h - everything about the bodies of calls: bounded decoding, JSON, compression, errors. */
#ifndef TIDE_NET_MESSAGES_H
#define TIDE_NET_MESSAGES_H

#include "net/inflate.h"
#include "net/json_proto.h"
#include "net/protobuf_guard.h"
#include "net/protobuf_scan.h"
#include "net/protobuf_wire.h"
#include "net/status_details.h"

#endif
