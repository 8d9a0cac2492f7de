/* base/log.h: where words for eyes go. A room logs to the sink it was given; no sink, no words.
 * Secrets, prompt text and header values are never logged at any level. */
#ifndef CF_BASE_LOG_H
#define CF_BASE_LOG_H

enum cf_log_level { CF_LOG_ERROR = 0, CF_LOG_WARN = 1, CF_LOG_INFO = 2, CF_LOG_DEBUG = 3, CF_LOG_TRACE = 4 };

struct cf_log {
    void (*fn)(void *user, enum cf_log_level level, const char *room, const char *line);
    void *user;
    enum cf_log_level most; /* lines above it are not even formatted */
};

/* `log` may be NULL. The line is made printable and cut at 1,000 bytes. */
void cf_log(const struct cf_log *log, enum cf_log_level level, const char *room, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
