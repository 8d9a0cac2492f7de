/*
 * cfrunner/version.h: what this library calls itself, and the mark of an exported symbol.
 */
#ifndef CFRUNNER_VERSION_H
#define CFRUNNER_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CF_API __attribute__((visibility("default")))
#define CF_CHECKED __attribute__((warn_unused_result))
#else
#define CF_API
#define CF_CHECKED
#endif

#define CFRUNNER_VERSION "0.1.0"

/* The ABI of everything under cfrunner/; its history and its rules stand in cfrunner/driver.h. */
#define CF_ABI_MAJOR 1
#define CF_ABI_MINOR 1

/* The version of the linked library, static storage; never NULL. */
CF_API const char *cf_version(void);

#ifdef __cplusplus
}
#endif
#endif
