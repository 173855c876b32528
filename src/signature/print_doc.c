/* print_doc.c -- an operator's documentation: how it is called, the comment at the head of its
 * file, its types and its gradient
 *
 * The same text is shown by help() in Python and by an editor that reads a stub.
 */
#include "signature_internal.h"

static void print_types(wick_text *out, const wick_signature *sig)
{
    for (int i = 0; i < sig->n_variables; i++) {
        wick_elem elem = {.kind = WICK_ELEM_VARIABLE, .variable = i};
        if (sig->variables[i].n_types == 0) continue;
        wick_text_printf(out, "\n%s is ", sig->variables[i].name);
        wick_elem_print_types(out, sig, &elem);
        wick_text_add(out, ".");
    }
}

/* A backward's results are d and the name of an input. */
static void print_gradient(wick_text *out, const wick_signature *backward)
{
    int n = backward->n_outputs;
    wick_text_add(out, "\nThe gradient of ");
    for (int i = 0; i < n; i++)
        wick_text_printf(out, "%s%s",
                         i == 0       ? ""
                         : i == n - 1 ? " and "
                                      : ", ",
                         backward->outputs[i].name + 1);
    wick_text_printf(out, " is %s.", backward->name);
}

static void print_written(wick_text *out, const wick_signature *sig)
{
    for (int i = 0; i < sig->n_inputs; i++)
        if (sig->inputs[i].in_place)
            wick_text_printf(out, "\n%s is written in place.", sig->inputs[i].name);
}

void wick_signature_print_doc(wick_text *out, const wick_signature *sig, const wick_doc *about)
{
    wick_signature_print_call(out, sig);
    wick_text_add(out, "\n");
    if (about->head[0]) wick_text_printf(out, "\n%s\n", about->head);
    if (about->first) wick_text_printf(out, "\nThe same operator as %s.", about->first);
    print_types(out, sig);
    print_written(out, sig);
    if (about->backward)
        print_gradient(out, about->backward);
    else
        wick_text_add(out, "\nIts file defines no gradient.");
}
