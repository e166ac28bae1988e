/* snapshot_decode.h - what the files that decode snapshots share (snapshot_record.h). */
#pragma once

#include "replica/snapshot_record.h"
