/* Blocks of the IANA special-purpose registries, and the addresses at which clouds keep keys.
 */
#include "relay/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const struct {
    uint32_t base;
    unsigned bits;
    const char *what;
} v4[] = {
    {0xa9fea9fe, 32, "metadata service"}, /* 169.254.169.254 */
    {0xa9fea9fd, 32, "metadata service"}, /* 169.254.169.253, its resolver */
    {0x646464c8, 32, "metadata service"}, /* 100.100.100.200 */
    {0xa83f8110, 32, "metadata service"}, /* 168.63.129.16, public by its number only */
    {0xc00000c0, 32, "metadata service"}, /* 192.0.0.192 */
    {0x00000000, 8, "unspecified"},
    {0x0a000000, 8, "private"},
    {0x64400000, 10, "private"}, /* shared by carriers */
    {0x7f000000, 8, "loopback"},
    {0xa9fe0000, 16, "link-local"},
    {0xac100000, 12, "private"},
    {0xc0000000, 24, "reserved"},
    {0xc0a80000, 16, "private"},
    {0xc6120000, 15, "private"}, /* benchmarks inside a network */
    {0xe0000000, 4, "multicast"},
    {0xf0000000, 4, "reserved"},
};

static const char *
refused_v4(uint32_t address)
{
    for (size_t i = 0; i < sizeof v4 / sizeof v4[0]; i++)
        if ((address ^ v4[i].base) >> (32 - v4[i].bits) == 0)
            return v4[i].what;
    return NULL;
}

static const struct {
    uint8_t base[16];
    unsigned bits;
    const char *what;
} v6[] = {
    {{0xfd, 0x00, 0x0e, 0xc2, [15] = 0x54, [14] = 0x02},
     128,
     "metadata service"}, /* fd00:ec2::254 */
    {{[15] = 1}, 128, "loopback"},
    {{0}, 128, "unspecified"},
    {{0x01, 0x00}, 64, "reserved"},
    {{0xfc}, 7, "private"},
    {{0xfe, 0x80}, 10, "link-local"},
    {{0xfe, 0xc0}, 10, "private"},
    {{0xff}, 8, "multicast"},
};

static bool
is_within(const uint8_t *address, const uint8_t *base, unsigned bits)
{
    unsigned bytes = bits / 8, rest = bits % 8;

    return memcmp(address, base, bytes) == 0 &&
           (rest == 0 || (address[bytes] ^ base[bytes]) >> (8 - rest) == 0);
}

static uint32_t
read_v4(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* The IPv4 address inside, when this is one of the forms that lead to it. */
static bool
has_v4(const uint8_t *address, uint32_t *ret_v4)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}, compatible[12] = {0};
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    static const uint8_t nat64_local[6] = {0x00, 0x64, 0xff, 0x9b, 0x00, 0x01};

    if (memcmp(address, mapped, 12) == 0 || memcmp(address, compatible, 12) == 0 ||
        memcmp(address, nat64, 12) == 0 || memcmp(address, nat64_local, 6) == 0)
        *ret_v4 = read_v4(address + 12);
    else if (address[0] == 0x20 && address[1] == 0x02)
        *ret_v4 = read_v4(address + 2); /* 6to4 */
    else if (address[0] == 0x20 && address[1] == 0x01 && address[2] == 0 && address[3] == 0)
        *ret_v4 = ~read_v4(address + 12); /* Teredo: the client, turned over */
    else
        return false;
    return true;
}

static const char *
refused_v6(const uint8_t *address)
{
    uint32_t inside;

    for (size_t i = 0; i < sizeof v6 / sizeof v6[0]; i++)
        if (is_within(address, v6[i].base, v6[i].bits))
            return v6[i].what;
    return has_v4(address, &inside) ? refused_v4(inside) : NULL;
}

const char *
cf_address_refused(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return refused_v4(
            ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr));
    if (address->sa_family == AF_INET6)
        return refused_v6(
            ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr.s6_addr);
    return "not an internet address";
}

void
cf_address_text(const struct sockaddr *address, char *out, size_t size)
{
    const void *bytes =
        address->sa_family == AF_INET6
            ? (const void *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr
            : (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr;

    if (inet_ntop(address->sa_family, bytes, out, (socklen_t)size) == NULL)
        (void)snprintf(out, size, "?");
}
