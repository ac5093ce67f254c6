/* SPDX-License-Identifier: BSD-3-Clause */
#include "failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static bool describe(struct failure *failure, int code, const char *format, va_list args)
{
    if (failure->code != 0)
        return false;
    failure->code = code > 0 ? -code : code;
    vsnprintf(failure->text, sizeof(failure->text), format, args);
    return true;
}

int failure_set(struct failure *failure, int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    describe(failure, code, format, args);
    va_end(args);
    return failure->code;
}

int failure_set_peer_lost(struct failure *failure, int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (describe(failure, code, format, args))
        failure->peer_lost = true;
    va_end(args);
    return failure->code;
}

int failure_set_usage(struct failure *failure, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (describe(failure, -EINVAL, format, args))
        failure->usage = true;
    va_end(args);
    return failure->code;
}
