/* cache_root.c -- the folder in which Wick keeps what it makes: modules, kernels, measured choices
 */
#include "core.h"

#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

static void add_home_cache(wick_text *path)
{
    const char *home = getenv("HOME");
    const struct passwd *user = home && *home ? NULL : getpwuid(geteuid());
    if (user) home = user->pw_dir;
    if (home && *home) wick_text_printf(path, "%s/.cache/wick", home);
}

void wick_cache_root(wick_text *out, const char *given)
{
    const char *own = given ? given : getenv("WICK_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME");
    if (own && *own)
        wick_text_add(out, own);
    else if (xdg && *xdg)
        wick_text_printf(out, "%s/wick", xdg);
    else
        add_home_cache(out);
}
