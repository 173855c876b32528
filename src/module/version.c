/* version.c -- which Wick this is */
#include <wick/wick.h>

const char *wick_version(void) { return WICK_VERSION; }
