/*
 * relay/address.h: which addresses a sandbox may be connected to when a name was opened for
 * it. Pure.
 */
#ifndef CF_RELAY_ADDRESS_H
#define CF_RELAY_ADDRESS_H

#include <stddef.h>
#include <sys/socket.h>

/* NULL: an address of the public net. Else what it is, static: "loopback", "private",
 * "link-local", "metadata service", "unspecified", "multicast", "reserved", "not an internet
 * address". IPv4 inside IPv6 (mapped, NAT64, 6to4, Teredo) counts as what is inside. */
const char *cf_address_refused(const struct sockaddr *address);

/* The address without its port, as text. */
void cf_address_text(const struct sockaddr *address, char *out, size_t size);

#endif
