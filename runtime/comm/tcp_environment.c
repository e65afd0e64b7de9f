#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/tcp.h"

enum { WORLD_MAX = 1 << 20, PORT_MAX = 65535 };

/* FNV-1a over the text, twice with different beginnings: not a secret, but other runs have other ones. */
void gal_tcp_cookie(const char *text, uint8_t cookie[GAL_TCP_COOKIE_BYTES])
{
    uint64_t hash[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)};
    memset(cookie, 0, GAL_TCP_COOKIE_BYTES);
    if (text == NULL) {
        return;
    }
    for (uint32_t half = 0; half < 2; half++) {
        for (const char *at = text; *at != '\0'; at++) {
            hash[half] = (hash[half] ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
        }
        for (uint32_t i = 0; i < 8; i++) {
            cookie[8 * half + i] = (uint8_t)(hash[half] >> 8 * i);
        }
    }
}

static gal_code read_number(const char *name, uint64_t least, uint64_t most, uint64_t *out, gal_error *err)
{
    const char *text = getenv(name);
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || value < least || value > most) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "the environment's %s must be a whole number from %llu to %llu, got '%.64s'", name,
                        (unsigned long long)least, (unsigned long long)most, text);
    }
    *out = value;
    return GAL_OK;
}

gal_code gal_tcp_place_read(gal_tcp_place *out, bool *found, gal_error *err)
{
    static const char *const names[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
    enum { NAMES = sizeof names / sizeof names[0] };
    gal_code code = GAL_OK;
    uint32_t present = 0;
    const char *missing = NULL;
    for (uint32_t i = 0; i < NAMES; i++) {
        const bool there = getenv(names[i]) != NULL;
        present += there;
        missing = there || missing != NULL ? missing : names[i];
    }
    *found = present == NAMES;
    if (present == 0) {
        return GAL_OK;
    }
    if (present < NAMES) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "the environment lacks %s: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT go together", missing);
    }
    gal_tcp_place place = {0};
    uint64_t rank = 0, world_size = 0, port = 0;
    const char *address = getenv("MASTER_ADDR"), *run = getenv("TORCHELASTIC_RUN_ID");
    GAL_TRY(read_number("WORLD_SIZE", 1, WORLD_MAX, &world_size, err));
    GAL_TRY(read_number("RANK", 0, world_size - 1, &rank, err));
    GAL_TRY(read_number("MASTER_PORT", 1, PORT_MAX, &port, err));
    if (address[0] == '\0' || strlen(address) >= sizeof place.address) {
        return gal_fail(err, GAL_ERR_USAGE, "the environment's MASTER_ADDR must be the name or number of a host");
    }
    place.rank = (uint32_t)rank;
    place.world_size = (uint32_t)world_size;
    place.port = (uint16_t)port;
    memcpy(place.address, address, strlen(address));
    gal_tcp_cookie(run != NULL ? run : getenv("SLURM_JOB_ID"), place.cookie);
    *out = place;
cleanup:
    return code;
}
