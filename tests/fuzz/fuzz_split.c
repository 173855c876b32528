/* fuzz_split -- any bytes as the rest of an operator file
 *
 * What is scanned must give a text for each compiler with as many lines as the author's, the same
 * every time, and pieces that lie inside of the text. Nothing may leak.
 */
#include "device.h"
#include "split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char head[] =
    "#include <wick/op.h>\nWICK_OP(f, \"x: T[N] -> y: T[N] where T: f32\");\n"
    "WICK_IMPL wick_status f_cpu(wick_ctx *ctx) { return WICK_OK; }\n";

static void require(bool holds, const char *what, const char *text)
{
    if (holds) return;
    fprintf(stderr, "%s: %s\n", what, text);
    abort();
}

static int count_lines(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void check_pieces(const char *text)
{
    wick_arena arena = {0};
    wick_chunks chunks;
    const char *end = text + strlen(text);
    wick_chunks_read(&chunks, &arena, text, strlen(text));
    for (int i = 0; i < chunks.n; i++) {
        const wick_chunk *c = &chunks.items[i];
        require(c->text.start >= text && c->text.start + c->text.size <= end, "piece", text);
        require(c->kind != WICK_CHUNK_FUNCTION || (c->name.start && c->params.start), "name", text);
    }
    wick_arena_free(&arena);
}

static void check_texts(const wick_scan *scan)
{
    int lines = count_lines(scan->text);
    wick_unit unit = {.scan = scan, .types = {WICK_F32}, .cuda = true};
    wick_text out = {0};
    require(count_lines(scan->host_text) == lines, "lines for C", scan->text);
    if (scan->device_text) {
        require(count_lines(scan->device_text) == lines, "lines for the device", scan->text);
        wick_glue_write_device(&out, &unit);
    }
    wick_glue_write(&out, &unit, 1, 0, false);
    if (scan->needs_nvcc) wick_glue_write_launchers(&out, &unit, 0);
    require(!out.failed, "out of memory", scan->text);
    wick_text_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    wick_ctx ctx;
    wick_scan scan, again;
    size_t n = strlen(head);
    char *text = malloc(n + size + 1);
    if (!text) return 0;
    memcpy(text, head, n);
    if (size > 0) memcpy(text + n, data, size);
    text[n + size] = '\0';
    wick_source source = {"op.c", text};
    wick_ctx_init(&ctx, NULL);
    check_pieces(text);
    if (wick_scan_source(&ctx, &source, &scan) == WICK_OK) {
        check_texts(&scan);
        require(wick_scan_source(&ctx, &source, &again) == WICK_OK, "differs", text);
        require(!strcmp(scan.host_text, again.host_text), "C differs", text);
        require(!scan.device_text || !strcmp(scan.device_text, again.device_text), "differs", text);
        wick_scan_free(&again);
    } else {
        require(*wick_ctx_message(&ctx) != '\0', "a failure without words", text);
    }
    wick_scan_free(&scan);
    wick_ctx_deinit(&ctx);
    free(text);
    require(wick_memory_live() == 0, "leak", "");
    return 0;
}
