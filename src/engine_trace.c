/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine_trace.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void engine_trace_process(const struct engine *engine, uint8_t cause)
{
    const struct options *options = engine->options;
    char hostname[256] = "", version[16];

    if (!FABT_TRACE_ENABLED(process))
        return;
    gethostname(hostname, sizeof(hostname) - 1);
    snprintf(version, sizeof(version), "%u.%u", FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
    FABT_TRACE(process, .cause = cause, .instance = engine->instance,
               .schema_version = FABT_SCHEMA_VERSION,
               .role = options->role == ROLE_GET ? (uint8_t)FABT_ROLE_GET : (uint8_t)FABT_ROLE_PUT,
               .pid = (uint32_t)getpid(), .run_id = engine->run_id, .start_ns = engine->start_ns,
               .sessions = options->local_sessions, .workers = engine->workers_count,
               .hostname = hostname, .engine_version = FABT_VERSION, .libfabric_version = version,
               .provider = engine->fabric.info->fabric_attr->prov_name,
               .command_line = engine->command_line);
}

void engine_trace_params(const struct engine *engine, uint8_t cause)
{
    const struct fabric *fabric = &engine->fabric;
    const struct fi_info *info = fabric->info;

    FABT_TRACE(params, .cause = cause, .tx_iov_limit = (uint32_t)info->tx_attr->iov_limit,
               .rx_iov_limit = (uint32_t)info->rx_attr->iov_limit,
               .rma_iov_limit = (uint32_t)info->tx_attr->rma_iov_limit,
               .mr_iov_limit = (uint32_t)info->domain_attr->mr_iov_limit,
               .mr_mode = fabric->mr_mode,
               .mr_key_size_bytes = (uint32_t)info->domain_attr->mr_key_size,
               .max_msg_size_bytes = info->ep_attr->max_msg_size,
               .tx_size = (uint32_t)info->tx_attr->size, .rx_size = (uint32_t)info->rx_attr->size,
               .cq_size = engine->workers_count == 0 ? 0 : (uint32_t)engine->workers[0].cq_size,
               .infos = fabric->infos, .fabric = info->fabric_attr->name,
               .domain = info->domain_attr->name);
}

/* A dump is long; an event holds a line. */
static void trace_info(const struct fi_info *info, uint8_t which)
{
    const char *text, *end;

    if (!FABT_TRACE_ENABLED(info_dump))
        return;
    for (text = fi_tostr(info, FI_TYPE_INFO); *text != '\0'; text = *end == '\0' ? end : end + 1) {
        char line[256];

        end = strchrnul(text, '\n');
        snprintf(line, sizeof(line), "%.*s", (int)(end - text), text);
        FABT_TRACE(info_dump, .which = which, .line = line);
    }
}

void engine_trace_listening(const struct engine *engine, uint8_t cause)
{
    const struct address *address = &engine->listener.endpoint.address;
    char text[ADDRESS_TEXT_SIZE];

    if (engine->options->role != ROLE_GET || !FABT_TRACE_ENABLED(session_address))
        return;
    address_format(address, text);
    FABT_TRACE(session_address, .cause = cause, .session = -1,
               .address_kind = FABT_ADDRESS_KIND_LISTEN, .address = text);
}

void engine_trace_state_dump(struct engine *engine, uint64_t now)
{
    if (!state_dump_due(&engine->dump, now, FABT_TRACE_ENABLED(process)))
        return;
    engine_trace_process(engine, FABT_CAUSE_STATE_DUMP);
    engine_trace_params(engine, FABT_CAUSE_STATE_DUMP);
    engine_trace_listening(engine, FABT_CAUSE_STATE_DUMP);
}

void engine_trace_infos(const struct engine *engine)
{
    trace_info(engine->fabric.hints, FABT_INFO_KIND_HINTS);
    trace_info(engine->fabric.info, FABT_INFO_KIND_CHOSEN);
}

void engine_trace_end(const struct engine *engine)
{
    const struct engine_verdict verdict = engine_judge(engine);

    FABT_TRACE(process_end, .exit_code = verdict.success ? 0 : 1, .ok = verdict.ok,
               .failed = verdict.failed, .cancelled = verdict.cancelled,
               .dropped = (uint32_t)verdict.dropped);
}

/* Long enough for a consumer to empty full buffers, too short to be noticed at a program's end. */
#define REPEAT_NS (10 * NS_PER_MS)

void engine_trace_ends(struct engine *engine)
{
    const struct timespec pause = {.tv_nsec = REPEAT_NS};
    struct fabt_writer own;

    fabt_trace_writer_end(&own);
    for (unsigned pass = 0; pass < 2 && FABT_TRACE_ENABLED(emitted); pass++) {
        nanosleep(&pause, NULL);
        for (uint32_t i = 0; i < engine->workers_count; i++) {
            if (engine->workers[i].ended.id != 0)
                fabt_trace_writer_repeat_end(&engine->workers[i].ended);
        }
        fabt_trace_writer_repeat_end(&own);
    }
}
