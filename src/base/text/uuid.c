#include "base/text/uuid.h"

#include <stdbool.h>

static const char HEX[] = "0123456789abcdef";

/* A dash stands in front of these bytes. */
static bool is_group_start(size_t byte)
{
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

/* RFC 9562: the version is the high half of byte 6, the variant the two high bits of byte 8. */
static void stamp_version(tide_uuid *uuid, unsigned version)
{
    uuid->bytes[6] = (uint8_t)((uuid->bytes[6] & 0x0FU) | (version << 4));
    uuid->bytes[8] = (uint8_t)((uuid->bytes[8] & 0x3FU) | 0x80U);
}

void tide_uuid_v4(tide_env *env, tide_uuid *uuid)
{
    env->random(env, uuid->bytes, sizeof uuid->bytes);
    stamp_version(uuid, 4);
}

void tide_uuid_v7(tide_env *env, tide_uuid *uuid)
{
    static const int64_t MS_MAX = ((int64_t)1 << 48) - 1;

    int64_t ms = env->wall_us(env) / 1000;
    if (ms < 0)
        ms = 0;
    if (ms > MS_MAX)
        ms = MS_MAX;
    for (size_t i = 0; i < 6; i++)
        uuid->bytes[i] = (uint8_t)((uint64_t)ms >> (40 - 8 * i));
    env->random(env, uuid->bytes + 6, sizeof uuid->bytes - 6);
    stamp_version(uuid, 7);
}

void tide_uuid_format(const tide_uuid *uuid, char out[TIDE_UUID_TEXT_SIZE])
{
    for (size_t i = 0; i < TIDE_UUID_LEN; i++) {
        if (is_group_start(i))
            *out++ = '-';
        *out++ = HEX[uuid->bytes[i] >> 4];
        *out++ = HEX[uuid->bytes[i] & 0x0FU];
    }
    *out = '\0';
}

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

tide_status tide_uuid_parse(tide_uuid *uuid, tide_view text)
{
    if (text.len != TIDE_UUID_TEXT_SIZE - 1)
        return TIDE_E_INVALID;

    tide_uuid parsed;
    const char *at = text.ptr;
    for (size_t i = 0; i < TIDE_UUID_LEN; i++) {
        if (is_group_start(i) && *at++ != '-')
            return TIDE_E_INVALID;
        const int high = hex_value(*at++);
        const int low = hex_value(*at++);
        if (high < 0 || low < 0)
            return TIDE_E_INVALID;
        parsed.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *uuid = parsed;
    return TIDE_OK;
}
