/* ctx.c -- one call's context: the first failure's words
 *
 * Kernels fail from several threads at once. `failed` is exchanged atomically, and only the thread
 * that found it 0 writes `message`; whoever reads the message does so after the threads have been
 * joined. A message that could not be allocated is not lost: failed without a message reads as "out
 * of memory".
 */
#include <wick/wick.h>

#include "core.h"

#include <assert.h>

const wick_services wick_plain_services = {wick_plain_fail, wick_plain_parallel};

void wick_ctx_init(wick_ctx *ctx, const wick_services *services)
{
    assert(ctx);
    *ctx = (wick_ctx){.services = services ? services : &wick_plain_services, .device = -1};
}

void wick_ctx_clear(wick_ctx *ctx)
{
    wick_free(ctx->message);
    ctx->message = NULL;
    ctx->failed = 0;
}

void wick_ctx_deinit(wick_ctx *ctx) { wick_ctx_clear(ctx); }

wick_ctx *wick_ctx_new(void)
{
    wick_ctx *ctx = wick_malloc(sizeof *ctx);
    if (ctx) wick_ctx_init(ctx, NULL);
    return ctx;
}

void wick_ctx_free(wick_ctx *ctx)
{
    if (!ctx) return;
    wick_ctx_deinit(ctx);
    wick_free(ctx);
}

const char *wick_ctx_message(const wick_ctx *ctx)
{
    if (!__atomic_load_n(&ctx->failed, __ATOMIC_ACQUIRE)) return "";
    const char *message = __atomic_load_n(&ctx->message, __ATOMIC_ACQUIRE);
    return message ? message : "out of memory";
}

wick_status wick_plain_fail(wick_ctx *ctx, wick_status status, const char *format, va_list args)
{
    assert(status != WICK_OK);
    if (__atomic_exchange_n(&ctx->failed, 1, __ATOMIC_ACQ_REL)) return status;
    wick_text text = {0};
    wick_text_vprintf(&text, format, args);
    if (text.failed) {
        wick_text_free(&text);
    } else {
        __atomic_store_n(&ctx->message, text.data, __ATOMIC_RELEASE);
    }
    return status;
}

wick_status(wick_fail)(wick_ctx *ctx, wick_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    status = ctx->services->fail(ctx, status, format, args);
    va_end(args);
    return status;
}

/* Takes over the text, unless it is incomplete: then the message stays as it was. */
static void replace_message(wick_ctx *ctx, wick_text *text)
{
    if (text->failed) {
        wick_text_free(text);
        return;
    }
    wick_free(ctx->message);
    ctx->message = text->data;
}

void wick_ctx_prefix(wick_ctx *ctx, const char *format, ...)
{
    if (!ctx->failed) return;
    wick_text text = {0};
    va_list args;
    va_start(args, format);
    wick_text_vprintf(&text, format, args);
    va_end(args);
    wick_text_add(&text, wick_ctx_message(ctx));
    replace_message(ctx, &text);
}

void wick_ctx_suffix(wick_ctx *ctx, const char *format, ...)
{
    if (!ctx->failed) return;
    wick_text text = {0};
    va_list args;
    wick_text_add(&text, wick_ctx_message(ctx));
    va_start(args, format);
    wick_text_vprintf(&text, format, args);
    va_end(args);
    replace_message(ctx, &text);
}
