/* cmd_check.c -- `wick check`; the verb itself is Python (wick/cli_check.py), its help is here */
#include "cli.h"

static const struct argp_option options[] = {
    {"reference", 256, "FILE", 0, "the reference's file (else NAME.py beside the source)", 0},
    {"only", 257, "WHAT", 0, "judge only these of the list above, as forward,memory", 0},
    {"types", 258, "TYPES", 0, "element types, as \"f32 bf16\" (else all)", 0},
    {"device", 259, "DEVICE", 0, "cpu, cuda or cuda:N (else all there are)", 0},
    {"depth", 260, "DEPTH", 0, "quick, default or full", 0},
    {"seed", 261, "N", 0, "of sizes and values (else 0)", 0},
    {"time", 262, "SECONDS", 0, "go on with further seeds for so long", 0},
    {"limit", 269, "SECONDS", 0,
     "of work for each judge of an operator (else 120, without end at depth full); 0: no limit", 0},
    {"case", 263, "CASE", 0, "only this case, as a report prints it", 0},
    {"first", 268, NULL, 0, "stop at the first fault of a file, and leave it as large as it is", 0},
    {"flags", 264, "FLAGS", 0, "for the C compiler", 0},
    {"jobs", 265, "N", 0, "processes at a time (else one per CPU, at most 4)", 0},
    {"json", 266, "FILE", 0, "write what was found; - is stdout, without the report", 0},
    {"junit", 267, "FILE", 0, "the same as JUnit's XML", 0},
    {0}};

static const cli_pair judged[] = {
    {"forward", "results against the reference, within the rounding of the type"},
    {"gradient", "gradients against the reference's, and by finite differences"},
    {"memory", "nothing read or written outside, all results written, inputs untouched"},
    {"repeat", "the same result again, after other calls, in another process"},
    {"threads", "the same on any number of threads, and from several callers"},
    {"leak", "no memory, file, thread or changed setting is left behind"},
    {"refuse", "wrong types, shapes and devices get an error"},
    {"opcheck", "torch.library.opcheck"},
    {"huge", "more than 2^31 elements"},
    {"stream", "on a GPU: other streams, captured graphs"},
    {0}};

static const cli_pair examples[] = {
    {"wick check my_op.c", "against the reference my_op.py beside it"},
    {"wick check my_op.c --only forward,gradient --types f32", "a part of it"},
    {"wick check relu", "an operator that comes with Wick; all of them without a name"},
    {"wick check ops --time 600 --junit check.xml", "a folder, for ten minutes, for a CI"},
    {0}};

const cli_verb cli_check = {
    .name = "check",
    .called = "wick check",
    .purpose = "find out whether operators are right",
    .operands = "[OPERATOR|FILE.c|MODULE.so|FOLDER...]",
    .description =
        "Find out whether operators are right. Inputs are made from the signature: empty, single, "
        "odd and large sizes, every type, layout and scalar, NaN, infinities and denormals; what "
        "is "
        "right is said by a function of the operator's name in NAME.py beside the source, in plain "
        "PyTorch. The operator runs in processes of its own with guarded memory, so that a crash "
        "or "
        "a hang is a finding. What fails is made as small as possible and printed as a command "
        "that "
        "shows it again.\n\n"
        "The exit code is 0 (sound), 1 (a fault was found) or 2 (not all could be checked). "
        "docs/check.md says more, docs/reports.md how to read what it prints.",
    .options = options,
    .words = judged,
    .examples = examples,
    .takes_files = true,
    .run = cli_run_python};
