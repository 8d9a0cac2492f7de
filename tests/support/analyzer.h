/*
 * analyzer.h: included first when clang's static analyzer reads a file (tests/support/analyze):
 * it sees one file at a time, and so not that these return -1, whatever they are given.
 */
#include "base/error.h"

#define cf_error_set(...) ((void)cf_error_set(__VA_ARGS__), -1)
#define cf_error_wrap(...) ((void)cf_error_wrap(__VA_ARGS__), -1)
#define cf_error_fix(...) ((void)cf_error_fix(__VA_ARGS__), -1)
#define cf_error_memory(err) ((void)cf_error_memory(err), -1)
