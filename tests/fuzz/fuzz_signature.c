/* fuzz_signature -- any bytes as a signature
 *
 * What parses must print as text that parses again and prints the same; must have a schema, a
 * prototype and a stub; and the inputs that the sampler invents for it must bind to dims that give
 * every result a shape. Nothing may leak.
 */
#include "signature.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what, const char *text)
{
    if (holds) return;
    fprintf(stderr, "%s: %s\n", what, text);
    abort();
}

static void check_round_trip(wick_arena *arena, const wick_signature *sig)
{
    wick_ctx ctx;
    wick_text first = {0}, second = {0};
    wick_signature *again = NULL;
    wick_ctx_init(&ctx, NULL);
    wick_signature_print(&first, sig);
    wick_status status =
        wick_signature_parse(&ctx, arena, sig->name, wick_text_str(&first), &again);
    require(status == WICK_OK, wick_ctx_message(&ctx), "canonical text does not parse");
    wick_signature_print(&second, again);
    require(strcmp(wick_text_str(&first), wick_text_str(&second)) == 0, "prints differ",
            wick_text_str(&first));
    wick_text_free(&first);
    wick_text_free(&second);
    wick_ctx_deinit(&ctx);
}

static void print_all(const wick_signature *sig)
{
    wick_text out = {0};
    wick_signature_print_call(&out, sig);
    wick_signature_print_schema(&out, sig);
    wick_signature_print_prototype(&out, sig, "cpu", true);
    wick_signature_print_prototype(&out, sig, "cuda", false);
    wick_signature_print_stub(&out, sig);
    wick_signature_print_python(&out, sig);
    require(!out.failed, "out of memory", sig->text);
    wick_text_free(&out);
}

static void check_sample(wick_arena *arena, const wick_signature *sig, wick_sample_kind kind,
                         uint64_t seed)
{
    wick_ctx ctx;
    wick_sample sample;
    wick_binding binding;
    wick_traffic traffic;
    wick_dtype types[WICK_MAX_TYPEVARS] = {WICK_F32, WICK_F16, WICK_I64, WICK_BOOL};
    wick_ctx_init(&ctx, NULL);
    if (wick_signature_sample(&ctx, arena, sig, kind, seed, 10000, &sample) == WICK_OK) {
        require(wick_signature_bind(&ctx, sig, sample.inputs, &binding) == WICK_OK,
                wick_ctx_message(&ctx), sig->text);
        for (int i = 0; i < sig->n_outputs + sig->n_scratch; i++) {
            int64_t size[WICK_MAX_RANK];
            int dim;
            require(wick_signature_shape(&ctx, sig, &sig->outputs[i], &binding, &dim, size) ==
                        WICK_OK,
                    wick_ctx_message(&ctx), sig->text);
        }
        wick_signature_traffic(&ctx, sig, &binding, sample.inputs, types, &traffic);
    }
    wick_ctx_deinit(&ctx);
}

/* Sizes of the fuzzer's own choosing: any answer will do. */
static void bind_anything(const wick_signature *sig, const uint8_t *data, size_t bytes)
{
    wick_input_shape inputs[WICK_MAX_PARAMS] = {{0}};
    int64_t sizes[WICK_MAX_RANK + 3];
    wick_binding binding;
    wick_ctx ctx;
    for (int i = 0; i < WICK_COUNT(sizes); i++) {
        uint8_t byte = bytes ? data[(size_t)i % bytes] : 0;
        sizes[i] = byte < 128 ? byte : INT64_MAX >> (byte & 63);
    }
    for (int i = 0; i < sig->n_inputs; i++) {
        int rank = sig->inputs[i].n_sizes + (sig->inputs[i].leading >= 0 ? i % 3 : 0);
        inputs[i] =
            (wick_input_shape){bytes == 0 || data[(size_t)i % bytes] != 'N', rank, sizes, sizes[i]};
    }
    wick_ctx_init(&ctx, NULL);
    if (wick_signature_bind(&ctx, sig, inputs, &binding) == WICK_OK)
        for (int i = 0; i < sig->n_outputs; i++) {
            int64_t size[WICK_MAX_RANK];
            int dim;
            wick_signature_shape(&ctx, sig, &sig->outputs[i], &binding, &dim, size);
        }
    wick_ctx_deinit(&ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    wick_ctx ctx;
    wick_arena arena = {0};
    wick_signature *sig = NULL;
    char *text = malloc(size + 1);
    if (!text) return 0;
    if (size > 0) memcpy(text, data, size);
    text[size] = '\0';
    for (int named = 0; named < 2; named++) {
        wick_ctx_init(&ctx, NULL);
        if (wick_signature_parse(&ctx, &arena, named ? "f" : NULL, text, &sig) == WICK_OK) {
            check_round_trip(&arena, sig);
            print_all(sig);
            for (int kind = 0; kind <= WICK_SAMPLE_LARGE; kind++)
                check_sample(&arena, sig, (wick_sample_kind)kind, size);
            bind_anything(sig, data, size);
        } else {
            require(*wick_ctx_message(&ctx) != '\0', "a failure without words", text);
        }
        wick_ctx_deinit(&ctx);
        wick_arena_free(&arena);
    }
    free(text);
    require(wick_memory_live() == 0, "leak", "");
    return 0;
}
