/* SHA256_Init and its like are the only way to a digest that does not load OpenSSL's providers: 2
 * MB of every process, most of which never need them. */
#define OPENSSL_SUPPRESS_DEPRECATED

#include "base/digest.h"

#include <assert.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
/* Lets the streaming state live on the stack: one chain step allocates nothing. */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "base/cleanup.h"

static tide_digest128 make_canonical(XXH128_hash_t hash)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    tide_digest128 digest;
    static_assert(sizeof canonical.digest == sizeof digest.bytes, "a digest is 16 bytes");
    memcpy(digest.bytes, canonical.digest, sizeof digest.bytes);
    return digest;
}

tide_digest128 tide_digest128_of(tide_view bytes)
{
    return make_canonical(XXH3_128bits(bytes.ptr, bytes.len));
}

tide_digest128 tide_digest128_of_parts(const tide_view *parts, size_t count)
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH_errorcode rc = XXH3_128bits_reset(&state);
    assert(rc == XXH_OK); /* fails only on a NULL state */
    for (size_t i = 0; i < count; i++)
        if (parts[i].len > 0) {
            rc = XXH3_128bits_update(&state, parts[i].ptr, parts[i].len);
            assert(rc == XXH_OK);
        }
    return make_canonical(XXH3_128bits_digest(&state));
}

tide_digest128 tide_digest_chain(tide_digest128 previous, tide_view record)
{
    const tide_view parts[] = {tide_view_bytes((const char *)previous.bytes, sizeof previous.bytes),
                               record};
    return tide_digest128_of_parts(parts, sizeof parts / sizeof parts[0]);
}

bool tide_digest128_equal(const tide_digest128 *a, const tide_digest128 *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static tide_status fail_openssl(tide_error *err, const char *what)
{
    char reason[128];
    ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
    ERR_clear_error();
    return tide_fail(err, TIDE_E_FAILED, "SHA-256: %s: %s", what, reason);
}

tide_status tide_sha256_of(tide_view bytes, uint8_t out[TIDE_SHA256_LEN], tide_error *err)
{
    SHA256_CTX context;
    if (SHA256_Init(&context) != 1 || SHA256_Update(&context, bytes.ptr, bytes.len) != 1 ||
        SHA256_Final(out, &context) != 1)
        return fail_openssl(err, "digest");
    return TIDE_OK;
}

tide_status tide_sha256_init(tide_sha256 *sha, tide_error *err)
{
    sha->context = EVP_MD_CTX_new();
    TIDE_NEED_MEMORY(sha->context, err);
    if (EVP_DigestInit_ex(sha->context, EVP_sha256(), NULL) != 1) {
        tide_sha256_done(sha);
        return fail_openssl(err, "init");
    }
    return TIDE_OK;
}

tide_status tide_sha256_add(tide_sha256 *sha, tide_view bytes, tide_error *err)
{
    if (EVP_DigestUpdate(sha->context, bytes.ptr, bytes.len) != 1)
        return fail_openssl(err, "add");
    return TIDE_OK;
}

tide_status tide_sha256_finish(tide_sha256 *sha, uint8_t out[TIDE_SHA256_LEN], tide_error *err)
{
    if (EVP_DigestFinal_ex(sha->context, out, NULL) != 1)
        return fail_openssl(err, "finish");
    return TIDE_OK;
}

void tide_sha256_done(tide_sha256 *sha)
{
    EVP_MD_CTX_free(sha->context);
    sha->context = NULL;
}

bool tide_digest_equal(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}

void tide_hex_encode(char *out, const void *bytes, size_t len)
{
    static const char HEX[] = "0123456789abcdef";
    const uint8_t *at = bytes;
    for (size_t i = 0; i < len; i++) {
        *out++ = HEX[at[i] >> 4];
        *out++ = HEX[at[i] & 0x0FU];
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

tide_status tide_hex_decode(void *out, size_t len, tide_view text)
{
    if (text.len % 2 != 0 || text.len / 2 != len)
        return TIDE_E_INVALID;
    uint8_t *at = out;
    for (size_t i = 0; i < len; i++) {
        const int high = hex_value(text.ptr[2 * i]);
        const int low = hex_value(text.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return TIDE_E_INVALID;
        at[i] = (uint8_t)(high << 4 | low);
    }
    return TIDE_OK;
}
