/* loop/tls.h: where a connection's TLS material lies. Paths are read when a connection is
 * made. */
#ifndef CF_LOOP_TLS_H
#define CF_LOOP_TLS_H

#include <stdbool.h>

struct cf_tls {
    const char *ca_file;   /* trusted certificates; NULL: the system's */
    const char *cert_file; /* our own certificate and key (PEM), both or neither */
    const char *key_file;
    bool skip_verify; /* the peer's certificate and name are not looked at */
};

#endif
