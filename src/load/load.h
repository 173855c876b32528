/* load.h -- sources that become operators, for those who load them often */
#ifndef WICK_LOAD_H
#define WICK_LOAD_H

#include "builder.h"
#include "module.h"

/* As wick_load_source. *unchanged: the source, what it includes and the options are those of the
 * last load, so nothing was done and *out is the module of then. When an edited source does not
 * build, the operators that it defined before are no longer run: calling one fails with the same
 * words until a load succeeds. */
wick_status wick_load_source_again(wick_ctx *ctx, const wick_source *source,
                                   const wick_build_options *options, wick_module **out,
                                   char **warnings, bool *unchanged);

/* Who is told when a compiler runs. Set once, before the first load. */
void wick_load_set_watch(const wick_build_watch *watch);

#endif /* WICK_LOAD_H */
