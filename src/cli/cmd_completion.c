/* cmd_completion.c -- `wick completion`: what a shell offers after <Tab>, from the verbs' own
 * tables
 */
#include "cli.h"

#include <string.h>

static const cli_pair words[] = {
    {"bash", "for bash"}, {"zsh", "for zsh"}, {"fish", "for fish"}, {0}};

/* The type is argp's. NOLINTNEXTLINE(readability-non-const-parameter) */
static error_t parse(int key, char *value, struct argp_state *state)
{
    const char **shell = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (*shell) argp_error(state, "one shell at a time");
        for (const cli_pair *word = words; word->word; word++) {
            if (strcmp(value, word->word) == 0) *shell = word->word;
        }
        if (!*shell) argp_error(state, "\"%s\" is none of bash, zsh, fish", value);
        return 0;
    case ARGP_KEY_END:
        if (!*shell) argp_error(state, "for which shell? bash, zsh or fish");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Inside single quotes. */
static void put_quoted(const char *s)
{
    for (; *s; s++) {
        if (*s == '\'') {
            printf("'\\''");
        } else {
            putchar(*s);
        }
    }
}

static bool is_letter(int key) { return key > ' ' && key < 127; }

/* ---- bash ---- */

static void bash_words(const cli_verb *verb)
{
    for (const struct argp_option *o = verb->options; o && o->name; o++) {
        printf("--%s%s ", o->name, o->arg ? "=" : "");
    }
    printf("--help");
    for (const cli_pair *word = verb->words; word && word->word; word++) {
        printf(" %s", word->word);
    }
}

static void print_bash(void)
{
    puts("# wick's completions for bash, from `wick completion bash`\n"
         "_wick()\n{\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} words='' files=''\n"
         "    COMPREPLY=()\n"
         "    case ${COMP_CWORD}:${COMP_WORDS[1]} in");
    printf("    1:*) words='");
    for (const cli_verb *const *verb = cli_verbs; *verb; verb++) {
        printf("%s ", (*verb)->name);
    }
    puts("--help --version' ;;");
    for (const cli_verb *const *verb = cli_verbs; *verb; verb++) {
        printf("    *:%s) words='", (*verb)->name);
        bash_words(*verb);
        printf("'%s ;;\n", (*verb)->takes_files ? " files=yes" : "");
    }
    puts("    esac\n"
         "    # After an option's `=`, or where operands are files: files.\n"
         "    if [[ $cur != -* && ( $files || ${COMP_WORDS[COMP_CWORD-1]} == @(=|-o) || $cur == = "
         ") ]]; then\n"
         "        compopt -o filenames\n"
         "        mapfile -t COMPREPLY < <(compgen -f -- \"${cur#=}\")\n"
         "    else\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
         "        [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
         "    fi\n"
         "}\n"
         "complete -F _wick wick");
}

/* ---- zsh ---- */

/* In an _arguments specification a bracket or colon would end the part it stands in. */
static void put_zsh(const char *s)
{
    for (; *s; s++) {
        if (strchr("[]:\\", *s)) putchar('\\');
        put_quoted((char[]){*s, '\0'});
    }
}

static void zsh_option(const struct argp_option *o)
{
    if (is_letter(o->key)) {
        printf(" \\\n            '-%c%s[", o->key, o->arg ? "+" : "");
        put_zsh(o->doc);
        printf(o->arg ? "]:%s:_files'" : "]'", o->arg);
    }
    printf(" \\\n            '--%s%s[", o->name, o->arg ? "=" : "");
    put_zsh(o->doc);
    printf(o->arg ? "]:%s:_files'" : "]'", o->arg);
}

static void zsh_verb(const cli_verb *verb)
{
    printf("        %s)\n        _arguments '--help[this text]'", verb->name);
    for (const struct argp_option *o = verb->options; o && o->name; o++) {
        zsh_option(o);
    }
    if (verb->words) {
        printf(" \\\n            '1:what:((");
        for (const cli_pair *word = verb->words; word->word; word++) {
            printf("%s%s\\:\"", word == verb->words ? "" : " ", word->word);
            put_zsh(word->meaning);
            printf("\"");
        }
        printf("))'");
    }
    if (verb->takes_files) printf(" \\\n            '*:file:_files'");
    puts("\n        ;;");
}

static void print_zsh(void)
{
    puts("#compdef wick\n# wick's completions for zsh, from `wick completion zsh`\n"
         "_wick()\n{\n"
         "    local -a verbs=(");
    for (const cli_verb *const *verb = cli_verbs; *verb; verb++) {
        printf("        '%s:", (*verb)->name);
        put_zsh((*verb)->purpose);
        puts("'");
    }
    puts("    )\n"
         "    if (( CURRENT == 2 )); then\n"
         "        _describe verb verbs\n"
         "        return\n"
         "    fi\n"
         "    shift words\n"
         "    (( CURRENT-- ))\n"
         "    case $words[1] in");
    for (const cli_verb *const *verb = cli_verbs; *verb; verb++) {
        zsh_verb(*verb);
    }
    puts("    esac\n}\n"
         "if [[ $funcstack[1] == _wick ]]; then _wick \"$@\"; else compdef _wick wick; fi");
}

/* ---- fish ---- */

/* In fish, only \ and ' are special inside single quotes. */
static void put_fish(const char *s)
{
    for (; *s; s++) {
        if (*s == '\'' || *s == '\\') putchar('\\');
        putchar(*s);
    }
}

static void fish_verb(const cli_verb *verb)
{
    printf("complete -c wick -n __fish_use_subcommand -f -a %s -d '", verb->name);
    put_fish(verb->purpose);
    puts("'");
    if (!verb->takes_files)
        printf("complete -c wick -n '__fish_seen_subcommand_from %s' -f\n", verb->name);
    for (const struct argp_option *o = verb->options; o && o->name; o++) {
        printf("complete -c wick -n '__fish_seen_subcommand_from %s' -l %s", verb->name, o->name);
        if (is_letter(o->key)) printf(" -s %c", o->key);
        printf("%s -d '", o->arg ? " -r" : "");
        put_fish(o->doc);
        puts("'");
    }
    for (const cli_pair *word = verb->words; word && word->word; word++) {
        printf("complete -c wick -n '__fish_seen_subcommand_from %s' -a %s -d '", verb->name,
               word->word);
        put_fish(word->meaning);
        puts("'");
    }
}

static void print_fish(void)
{
    puts("# wick's completions for fish, from `wick completion fish`\n"
         "complete -c wick -l help -s h -d 'what it does, with examples'");
    for (const cli_verb *const *verb = cli_verbs; *verb; verb++) {
        fish_verb(*verb);
    }
}

/* ---- the verb ---- */

static int run(const cli_verb *verb, int argc, char **argv)
{
    const char *shell = NULL;
    cli_parse(verb, parse, argc, argv, &shell);
    if (strcmp(shell, "bash") == 0) {
        print_bash();
    } else if (strcmp(shell, "zsh") == 0) {
        print_zsh();
    } else {
        print_fish();
    }
    return CLI_OK;
}

static const cli_pair examples[] = {
    {"wick completion bash > ~/.local/share/bash-completion/completions/wick", "for good, in bash"},
    {"wick completion zsh > ~/.zfunc/_wick", "in zsh, with ~/.zfunc in $fpath"},
    {"wick completion fish > ~/.config/fish/completions/wick.fish", "in fish"},
    {"source <(wick completion bash)", "for this shell only"},
    {0}};

const cli_verb cli_completion = {
    .name = "completion",
    .called = "wick completion",
    .purpose = "print completions for a shell",
    .operands = "bash|zsh|fish",
    .description = "Print what makes a shell complete verbs, options and files after <Tab>.",
    .words = words,
    .examples = examples,
    .run = run};
