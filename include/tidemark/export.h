/* export.h - marks of the public interface. */
#ifndef TIDEMARK_EXPORT_H
#define TIDEMARK_EXPORT_H

#define TIDE_API __attribute__((visibility("default")))
#define TIDE_MUST_CHECK __attribute__((warn_unused_result))
#define TIDE_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))

/* For C++ programs. */
#ifdef __cplusplus
#define TIDE_BEGIN_DECLS extern "C" {
#define TIDE_END_DECLS }
#else
#define TIDE_BEGIN_DECLS
#define TIDE_END_DECLS
#endif

#endif
