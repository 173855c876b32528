/* test_sample.c -- invented inputs fit their signature, and are what their kind promises */
#include "fixture.h"

enum { SEEDS = 200, BUDGET = 5000 };

static void check_seed(fixture *f, wick_sample_kind kind, uint64_t seed)
{
    wick_sample sample;
    wick_binding binding;
    cr_assert_eq(wick_signature_sample(&f->ctx, &f->arena, f->sig, kind, seed, BUDGET, &sample),
                 WICK_OK, "%s", wick_ctx_message(&f->ctx));
    cr_assert_eq(wick_signature_bind(&f->ctx, f->sig, sample.inputs, &binding), WICK_OK, "%s: %s",
                 f->sig->name, wick_ctx_message(&f->ctx));
    cr_assert_arr_eq(binding.value, sample.dims, (size_t)f->sig->n_dims * sizeof *sample.dims);
    for (int i = 0; i < f->sig->n_dims; i++)
        cr_assert(!f->sig->dims[i].leading ||
                  wick_shape_numel(sample.n_leading[i], sample.leading[i]) == sample.dims[i]);
    for (int i = 0; i < f->sig->n_outputs; i++) {
        int64_t size[WICK_MAX_RANK];
        int dim;
        cr_assert_eq(
            wick_signature_shape(&f->ctx, f->sig, &f->sig->outputs[i], &binding, &dim, size),
            WICK_OK);
        cr_assert_leq(wick_shape_numel(dim, size), BUDGET);
    }
}

static void check_kernel(fixture *f)
{
    for (int kind = WICK_SAMPLE_RANDOM; kind <= WICK_SAMPLE_LARGE; kind++)
        for (uint64_t seed = 0; seed < SEEDS; seed++)
            check_seed(f, (wick_sample_kind)kind, seed);
}

Test(sample, every_kernel_in_every_kind_over_many_seeds) { for_each_kernel(check_kernel); }

static wick_sample sample_of(fixture *f, wick_sample_kind kind, uint64_t seed, int64_t budget)
{
    wick_sample sample;
    cr_assert_eq(wick_signature_sample(&f->ctx, &f->arena, f->sig, kind, seed, budget, &sample),
                 WICK_OK, "%s", wick_ctx_message(&f->ctx));
    return sample;
}

Test(sample, the_same_seed_gives_the_same_choice)
{
    fixture f = fixture_of("x: T[*N, C], k: int, s: float, m: 'a'|'b'|'c' -> y: T[*N, k]");
    int differ = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        wick_sample a = sample_of(&f, WICK_SAMPLE_RANDOM, seed, 0),
                    b = sample_of(&f, WICK_SAMPLE_RANDOM, seed, 0),
                    c = sample_of(&f, WICK_SAMPLE_RANDOM, seed + 1, 0);
        cr_assert_eq(memcmp(a.dims, b.dims, sizeof a.dims), 0);
        cr_assert_eq(a.inputs[3].number, b.inputs[3].number);
        cr_assert(a.floats[2] == b.floats[2]);
        differ += memcmp(a.dims, c.dims, sizeof a.dims) != 0;
    }
    cr_assert_gt(differ, 25);
    fixture_free(&f);
}

Test(sample, empty_has_a_zero_and_reaches_every_dim)
{
    fixture f = fixture_of("x: T[*N, C, D+1] -> y: T[*N, D]");
    bool seen[3] = {false};
    for (uint64_t seed = 0; seed < 60; seed++) {
        wick_sample s = sample_of(&f, WICK_SAMPLE_EMPTY, seed, 0);
        int zeros = 0;
        for (int i = 0; i < 3; i++) {
            zeros += s.dims[i] == 0;
            seen[i] |= s.dims[i] == 0;
        }
        cr_assert_eq(zeros, 1);
    }
    cr_assert(seen[0] && seen[1] && seen[2]);
    fixture_free(&f);
}

Test(sample, one_is_all_ones)
{
    fixture f = fixture_of("x: T[*N, C], k: int -> y: T[*N, C, k]");
    wick_sample s = sample_of(&f, WICK_SAMPLE_ONE, 3, 0);
    cr_assert(s.dims[0] == 1 && s.dims[1] == 1 && s.dims[2] == 1 && s.inputs[1].number == 1);
    fixture_free(&f);
}

Test(sample, large_comes_close_to_the_budget)
{
    fixture f = fixture_of("x: T[N, C], w: T[H*4, C] -> y: T[N, H*4]");
    for (uint64_t seed = 0; seed < 20; seed++) {
        wick_sample s = sample_of(&f, WICK_SAMPLE_LARGE, seed, 1000000);
        int64_t most = 0;
        for (int i = 0; i < 2; i++) {
            int64_t n = wick_shape_numel(s.inputs[i].dim, s.inputs[i].size);
            most = n > most ? n : most;
        }
        int64_t y = s.dims[0] * s.dims[2] * 4;
        most = y > most ? y : most;
        cr_assert(most <= 1000000 && most > 500000, "%lld", (long long)most);
    }
    fixture_free(&f);
}

Test(sample, optionals_are_present_and_absent)
{
    fixture f = fixture_of("x: T[N], b?: T[N] -> y: T[N]");
    int present = 0;
    for (uint64_t seed = 0; seed < 40; seed++)
        present += sample_of(&f, WICK_SAMPLE_RANDOM, seed, 0).inputs[1].present;
    cr_assert(present > 5 && present < 35, "%d", present);
    fixture_free(&f);
}

Test(sample, differences_find_sizes_large_enough)
{
    fixture f = fixture_of("x: T[S-20] -> y: T[S]");
    for (int kind = WICK_SAMPLE_RANDOM; kind <= WICK_SAMPLE_LARGE; kind++)
        sample_of(&f, (wick_sample_kind)kind, 1, 0);
    fixture_free(&f);
}

Test(sample, the_sizes_of_convolutions_are_found)
{
    fixture f = fixture_of("x: T[B, C, L], w: T[O, C, K], pad: int = 0, dil: int = 1"
                           " -> y: T[B, O, L+2*pad-dil*K+dil]");
    int padded = 0, plain = 0;
    for (int kind = WICK_SAMPLE_RANDOM; kind <= WICK_SAMPLE_LARGE; kind++)
        for (uint64_t seed = 0; seed < 300; seed++) {
            wick_sample s = sample_of(&f, (wick_sample_kind)kind, seed, 2000);
            cr_assert_leq(s.inputs[2].number, 4);
            padded += s.inputs[2].number > 0;
            plain += s.inputs[2].number == 0;
        }
    cr_assert(padded > 300 && plain > 300, "%d %d", padded, plain);
    fixture_free(&f);
}

Test(sample, what_cannot_fit_is_told)
{
    fixture f = fixture_of("x: T[S-20, 10-S] -> y: T[S]");
    wick_sample sample;
    cr_assert_eq(wick_signature_sample(&f.ctx, &f.arena, f.sig, WICK_SAMPLE_RANDOM, 1, 0, &sample),
                 WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&f.ctx), "f: found no sizes that fit the signature");
    fixture_free(&f);
}
