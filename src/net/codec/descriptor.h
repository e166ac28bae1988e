/* descriptor.h - which .proto file says what: an index over a FileDescriptorSet.
 *
 * The build embeds the descriptors of every service (tide_descriptor_set). The index knows the
 * files, what they import, and every full name in them: messages, fields, oneofs, enums and their
 * values, services, methods, extensions. It borrows the set's bytes, which must outlive it, and
 * hands out files as they stand there.
 *
 * A set is input like any other: bytes that are no FileDescriptorSet are refused.
 *
 * Threads: immutable once made. Limits: TIDE_DESCRIPTOR_SET_MAX, and TIDE_DESCRIPTOR_DEPTH_MAX
 * messages inside each other. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "base/cleanup.h"

enum {
    TIDE_DESCRIPTOR_SET_MAX = 16 << 20, /* bytes */
    TIDE_DESCRIPTOR_DEPTH_MAX = 32,
};

/* Generated; proto/meson.build. */
extern const unsigned char tide_descriptor_set[];
extern const unsigned long tide_descriptor_set_len;

typedef struct tide_descriptor_file {
    tide_view name;       /* "tidemark/agent/v1/agent.proto" */
    tide_view package;    /* "tidemark.agent.v1" */
    tide_view bytes;      /* the FileDescriptorProto */
    size_t imports_first; /* in the index's list of imports */
    size_t imports_count;
} tide_descriptor_file;

typedef struct tide_descriptors tide_descriptors;

/* TIDE_E_INVALID: not a FileDescriptorSet, or a name appears twice. TIDE_E_LIMIT, TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_descriptors_new(tide_descriptors **out, tide_view set,
                                                 tide_error *err);
void tide_descriptors_free(tide_descriptors *descriptors);
TIDE_CLEANUP_FN(tide_descriptors_freep, tide_descriptors, tide_descriptors_free)

/* NULL: no such file, or nothing of this (full) name. */
const tide_descriptor_file *tide_descriptors_find_file(const tide_descriptors *descriptors,
                                                       tide_view name);
const tide_descriptor_file *tide_descriptors_find_symbol(const tide_descriptors *descriptors,
                                                         tide_view name);
const tide_descriptor_file *tide_descriptors_find_extension(const tide_descriptors *descriptors,
                                                            tide_view type, int32_t number);

/* The numbers of a type's extensions, one by one: index counts them from 0. False: no more. */
bool tide_descriptors_next_extension(const tide_descriptors *descriptors, tide_view type,
                                     size_t *index, int32_t *number);

/* Is there a message of this name? */
bool tide_descriptors_has_message(const tide_descriptors *descriptors, tide_view name);

size_t tide_descriptors_file_count(const tide_descriptors *descriptors);
size_t tide_descriptors_service_count(const tide_descriptors *descriptors);
tide_view tide_descriptors_service(const tide_descriptors *descriptors, size_t index);

/* A file and everything it imports, directly or not, each once, the file itself first. fn returns
 * whether to go on. False: fn stopped it, or there was no memory. */
typedef bool tide_descriptor_fn(const tide_descriptor_file *file, void *arg);
TIDE_MUST_CHECK bool tide_descriptors_walk(const tide_descriptors *descriptors,
                                           const tide_descriptor_file *file, tide_descriptor_fn *fn,
                                           void *arg);
