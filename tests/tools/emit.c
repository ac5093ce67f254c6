/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Write the events of a made-up run, so that the analysis can be tested without a fabric.
 *
 *     emit [--rounds N] [--schema N] [--kill] [--one-sided] [--full] [--run-id N]
 *
 * Two processes, get and put, with two sessions: session 1 has fragments and a deferral, writes
 * complete out of posting order, and receives are cancelled or abandoned at the end. One thread
 * plays all parts; it changes the writer like an actor changes hats. The figures that a test
 * expects are counted by the same rules as the engine's: what is posted, completed, deferred is
 * also in session_count.
 *
 *   --rounds N    rounds of offer, write, report per session (default 40)
 *   --schema N    claim schema version N in the `process` events
 *   --kill        stop in the middle, as a killed process does: nothing is closed
 *   --one-sided   leave put out, as if it had run on a host that was not recorded
 *   --full        also write some events of level `full`
 *   --run-id N    claim to belong to this run (default 262896334)
 */
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "trace.h"

enum hat { GET_MAIN, GET_WORKER, PUT_MAIN, PUT_WORKER, HATS };

enum { SESSIONS = 2, WRITES_A_ROUND = 3, RECEIVES = 4, LISTENING = -1 };

/* Receives of the listening endpoint belong to no session. */
static const uint32_t listen_session = UINT32_MAX;

struct options {
    uint32_t rounds;
    uint32_t schema;
    bool kill;
    bool one_sided;
    bool full;
    uint32_t run_id;
};

/* One end of a session, and the counters that its session_count repeats. */
struct end {
    uint32_t session;
    enum hat hat;
    uint64_t ops;
    uint64_t started_ns;
    uint64_t vectors, progresses, position;
    uint64_t receives[RECEIVES];
    struct fabt_ev_session_count count;
};

/* A worker's clock and counters for `load`. */
struct worker {
    enum hat hat;
    struct fabt_ev_load load;
};

struct stage {
    struct options options;
    struct fabt_writer writers[HATS];
    enum hat hat;
    struct end get[SESSIONS], put[SESSIONS];
    struct worker get_worker, put_worker;
    uint64_t initial_rx[SESSIONS];
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The next events come from another thread. */
static void wear(struct stage *stage, enum hat hat)
{
    stage->writers[stage->hat] = fabt_writer;
    stage->hat = hat;
    fabt_writer = stage->writers[hat];
}

static bool is_rx(uint8_t kind)
{
    return kind == FABT_KIND_INITIAL_RX || kind == FABT_KIND_ACK_RX ||
           kind == FABT_KIND_VECTOR_RX || kind == FABT_KIND_PROGRESS_RX;
}

/* Something for the clock to measure: a few hundred nanoseconds that no compiler removes. */
static void work(unsigned amount)
{
    volatile unsigned sink = 0;

    for (unsigned i = 0; i < amount; i++)
        sink = sink + i;
}

static uint64_t post(struct stage *stage, struct end *end, uint8_t kind, uint32_t len,
                     uint64_t payload, uint64_t position)
{
    uint64_t begin;

    wear(stage, end->hat);
    begin = now_ns();
    work(200);
    end->ops++;
    end->count.ops_posted++;
    if (kind == FABT_KIND_WRITE || kind == FABT_KIND_FRAGMENT)
        end->count.writes++;
    FABT_TRACE(op_post, .session = end->session, .op = end->ops, .kind = kind,
               .nsegs = is_rx(kind) ? 1 : 3, .len_bytes = len, .payload_bytes = payload,
               .position = position, .tag_or_key = position % 64,
               .call_ns = (uint32_t)(now_ns() - begin));
    return end->ops;
}

static void complete(struct stage *stage, struct end *end, uint64_t op, uint8_t kind,
                     uint8_t status, uint32_t len, uint64_t payload, uint16_t earlier)
{
    wear(stage, end->hat);
    end->count.ops_completed++;
    end->count.out_of_order += earlier > 0;
    if (stage->options.full)
        FABT_TRACE(completion, .session = end->session, .op = op, .kind = kind, .flags = 0x4000,
                   .tag = 0);
    FABT_TRACE(op_complete, .session = end->session, .op = op, .kind = kind, .status = status,
               .len_bytes = len, .payload_bytes = payload, .earlier_pending = earlier);
}

static void state(struct stage *stage, struct end *end, uint8_t value)
{
    wear(stage, end->hat);
    FABT_TRACE(session_state, .session = end->session, .state = value);
    work(2000);
}

static void phase(struct stage *stage, struct end *end, uint8_t value)
{
    wear(stage, end->hat);
    FABT_TRACE(session_phase, .session = end->session, .phase = value);
}

static void count(struct stage *stage, struct end *end)
{
    wear(stage, end->hat);
    end->count.session = end->session;
    FABT_TRACE(session_count, .session = end->session, .payload_bytes = end->count.payload_bytes,
               .reported_bytes = end->count.reported_bytes, .credit_bytes = end->count.credit_bytes,
               .ops_posted = end->count.ops_posted, .ops_completed = end->count.ops_completed,
               .writes = end->count.writes, .fragments = end->count.fragments,
               .deferred = end->count.deferred, .out_of_order = end->count.out_of_order,
               .vectors = end->count.vectors, .progresses = end->count.progresses,
               .registrations = 3, .registration_ns = 4200);
}

static void load(struct stage *stage, struct worker *worker, uint64_t busy, uint64_t idle,
                 uint64_t asleep)
{
    struct fabt_ev_load *l = &worker->load;

    wear(stage, worker->hat);
    l->busy_ns += busy;
    l->idle_ns += idle;
    l->asleep_ns += asleep;
    l->loops += 1000;
    l->contexts += 700;
    l->average_fp8 = (l->average_fp8 + 256 * 700 / 1000) / 2;
    FABT_TRACE(load, .worker = 0, .cpu = l->cpu, .sessions = SESSIONS, .busy_ns = l->busy_ns,
               .idle_ns = l->idle_ns, .asleep_ns = l->asleep_ns, .polls_busy = l->loops / 2,
               .polls_idle = l->loops / 2, .loops = l->loops, .contexts = l->contexts,
               .window_loops = 1000, .window_contexts_min = 0, .window_contexts_max = 7,
               .average_fp8 = l->average_fp8, .cpu_time_ns = l->busy_ns + l->idle_ns,
               .switches_voluntary = 5, .switches_involuntary = 1);
}

static void introduce_process(struct stage *stage, enum hat hat, uint8_t role, uint32_t pid,
                              uint8_t cause)
{
    wear(stage, hat);
    FABT_TRACE(process, .cause = cause, .instance = fabt_writer.id / FABT_WRITER_THREADS,
               .schema_version = stage->options.schema, .role = role, .pid = pid,
               .run_id = stage->options.run_id, .start_ns = now_ns(), .sessions = SESSIONS,
               .workers = 1, .hostname = "made-up", .engine_version = "0.1.0",
               .libfabric_version = "1.17", .provider = "tcp;ofi_rxm",
               .command_line =
                   role == FABT_ROLE_GET ? "fabtget -n 2 -a addr" : "fabtput -n 2 02:00:a2:77");
    FABT_TRACE(params, .cause = cause, .tx_iov_limit = 4, .rx_iov_limit = 4, .rma_iov_limit = 4,
               .mr_iov_limit = 1, .mr_mode = 0x44, .mr_key_size_bytes = 8,
               .max_msg_size_bytes = 1 << 30, .tx_size = 2048, .rx_size = 2048, .cq_size = 512,
               .infos = 3, .fabric = "127.0.0.0/8", .domain = "lo");
}

static void introduce_worker(struct stage *stage, struct worker *worker, uint32_t tid, int32_t cpu,
                             int32_t pinned_cpu)
{
    wear(stage, worker->hat);
    worker->load.cpu = cpu;
    FABT_TRACE(worker, .cause = FABT_CAUSE_START, .worker = 0, .tid = tid, .pinned_cpu = pinned_cpu,
               .wait_mode = FABT_WAIT_MODE_EPOLL);
    FABT_TRACE(queue_watch, .worker = 0, .watch = FABT_WATCH_JOINED, .fd = 9);
}

static void address(struct stage *stage, struct end *end, uint8_t kind, const char *role)
{
    char text[64];

    wear(stage, end->hat);
    snprintf(text, sizeof(text), "02:00:%s:%02x", strcmp(role, "get") == 0 ? "aa" : "bb",
             end->session);
    FABT_TRACE(session_address, .cause = FABT_CAUSE_START, .session = (int32_t)end->session,
               .address_kind = kind, .address = text);
}

static void open_end(struct stage *stage, struct end *end, const char *role, const char *peer)
{
    wear(stage, end->hat);
    end->started_ns = now_ns();
    FABT_TRACE(session_open, .cause = FABT_CAUSE_START, .session = end->session, .worker = 0,
               .wire_id = end->session, .peer_pid = strcmp(role, "get") == 0 ? 4002 : 4001,
               .run_id = stage->options.run_id, .workload = FABT_WORKLOAD_STRESS,
               .total_bytes = (uint64_t)stage->options.rounds * WRITES_A_ROUND * 97u);
    phase(stage, end, FABT_PHASE_SETUP);
    state(stage, end, FABT_STATE_SETUP);
    address(stage, end, FABT_ADDRESS_KIND_LOCAL, role);
    phase(stage, end, FABT_PHASE_HELLO);
    state(stage, end, FABT_STATE_PEER);
    address(stage, end, FABT_ADDRESS_KIND_PEER, peer);
}

static void start_end(struct stage *stage, struct end *end, uint8_t receive_kind)
{
    phase(stage, end, FABT_PHASE_TRANSFER);
    wear(stage, end->hat);
    FABT_TRACE(session_start, .session = end->session, .handshake_ns = now_ns() - end->started_ns);
    end->started_ns = now_ns();
    for (unsigned i = 0; i < RECEIVES; i++)
        end->receives[i] = post(stage, end, receive_kind, 296, 0, i);
}

/* A session's hello, seen by both sides, get's initial receives in the listening endpoint's name.
 */
static void handshake(struct stage *stage, unsigned i)
{
    struct end *get = &stage->get[i], *put = &stage->put[i];
    struct end listening = {.session = listen_session, .hat = GET_MAIN, .ops = i};
    uint64_t ack_rx = 0, sent;

    stage->initial_rx[i] = post(stage, &listening, FABT_KIND_INITIAL_RX, 544, 0, 0);
    if (!stage->options.one_sided) {
        open_end(stage, put, "put", "get");
        ack_rx = post(stage, put, FABT_KIND_ACK_RX, 516, 0, 0);
        sent = post(stage, put, FABT_KIND_INITIAL_TX, 544, 0, 0);
        complete(stage, put, sent, FABT_KIND_INITIAL_TX, FABT_STATUS_OK, 544, 0, 0);
    }
    complete(stage, &listening, stage->initial_rx[i], FABT_KIND_INITIAL_RX, FABT_STATUS_OK, 544, 0,
             0);
    open_end(stage, get, "get", "put");
    sent = post(stage, get, FABT_KIND_ACK_TX, 516, 0, 0);
    complete(stage, get, sent, FABT_KIND_ACK_TX, FABT_STATUS_OK, 516, 0, 0);
    start_end(stage, get, FABT_KIND_PROGRESS_RX);
    if (stage->options.one_sided)
        return;
    complete(stage, put, ack_rx, FABT_KIND_ACK_RX, FABT_STATUS_OK, 516, 0, 0);
    start_end(stage, put, FABT_KIND_VECTOR_RX);
}

/* A message arrives in the oldest receive, which is posted again. */
static void receive(struct stage *stage, struct end *end, uint8_t kind, uint64_t number,
                    uint64_t payload)
{
    unsigned slot = (unsigned)(number % RECEIVES);

    complete(stage, end, end->receives[slot], kind, FABT_STATUS_OK, 80, payload, 0);
    end->receives[slot] = post(stage, end, kind, 296, 0, number + RECEIVES);
}

static void offer(struct stage *stage, struct end *get, struct end *put)
{
    uint64_t op = post(stage, get, FABT_KIND_VECTOR_TX, 80, 97 * WRITES_A_ROUND, get->vectors);

    complete(stage, get, op, FABT_KIND_VECTOR_TX, FABT_STATUS_OK, 80, 97 * WRITES_A_ROUND, 0);
    state(stage, get, FABT_STATE_MEMORY);
    if (!stage->options.one_sided)
        receive(stage, put, FABT_KIND_VECTOR_RX, get->vectors, 97 * WRITES_A_ROUND);
    get->count.vectors = ++get->vectors;
    put->count.vectors = get->vectors;
}

/* A payload buffer in two writes of its own. */
static void split(struct stage *stage, struct end *put, uint64_t parent, uint64_t op,
                  uint32_t child)
{
    wear(stage, put->hat);
    if (child == 0) /* the last piece is what remained, and no split */
        put->count.fragments++;
    FABT_TRACE(fragment, .session = put->session, .parent = parent, .child = child, .op = op,
               .offset_bytes = child * 50, .len_bytes = child == 0 ? 50 : 47,
               .children_out = child + 1, .last = (uint8_t)child);
}

/* Writes of a round; the second overtakes the first, and session 1 splits its third. */
static void write_round(struct stage *stage, struct end *put, uint64_t round)
{
    const bool fragments = put->session == 1;
    uint64_t op[WRITES_A_ROUND + 1];
    const uint8_t last_kind = fragments ? FABT_KIND_FRAGMENT : FABT_KIND_WRITE;
    const uint32_t last_len = fragments ? 50 : 97;

    if (put->session == 1 && round == 2) {
        wear(stage, put->hat);
        put->count.deferred++;
        FABT_TRACE(op_defer, .session = put->session, .op = put->ops + 1, .kind = FABT_KIND_WRITE,
                   .len_bytes = 97);
        state(stage, put, FABT_STATE_DEFERRED);
    }
    op[0] = post(stage, put, FABT_KIND_WRITE, 97, 97, put->position);
    op[1] = post(stage, put, FABT_KIND_WRITE, 97, 97, put->position + 97);
    op[2] = post(stage, put, last_kind, last_len, last_len, put->position + 194);
    if (fragments) {
        split(stage, put, round, op[2], 0);
        op[3] = post(stage, put, FABT_KIND_FRAGMENT, 47, 47, put->position + 244);
        split(stage, put, round, op[3], 1);
    }
    put->position += 97 * WRITES_A_ROUND;
    state(stage, put, FABT_STATE_PROVIDER);
    complete(stage, put, op[1], FABT_KIND_WRITE, FABT_STATUS_OK, 97, 97, 1);
    complete(stage, put, op[0], FABT_KIND_WRITE, FABT_STATUS_OK, 97, 97, 0);
    complete(stage, put, op[2], last_kind, FABT_STATUS_OK, last_len, last_len, 0);
    if (fragments)
        complete(stage, put, op[3], FABT_KIND_FRAGMENT, FABT_STATUS_OK, 47, 47, 0);
    put->count.payload_bytes = put->position;
}

static void report(struct stage *stage, struct end *get, struct end *put)
{
    if (!stage->options.one_sided) {
        uint64_t op =
            post(stage, put, FABT_KIND_PROGRESS_TX, 16, 97 * WRITES_A_ROUND, put->progresses);

        complete(stage, put, op, FABT_KIND_PROGRESS_TX, FABT_STATUS_OK, 16, 97 * WRITES_A_ROUND, 0);
        put->count.progresses = ++put->progresses;
        put->count.reported_bytes += 97 * WRITES_A_ROUND;
        state(stage, put, FABT_STATE_MEMORY);
    }
    receive(stage, get, FABT_KIND_PROGRESS_RX, get->progresses, 97 * WRITES_A_ROUND);
    get->count.progresses = ++get->progresses;
    get->position += 97 * WRITES_A_ROUND;
    get->count.reported_bytes = get->count.payload_bytes = get->position;
    state(stage, get, FABT_STATE_REPORT);
}

static void round_trip(struct stage *stage, unsigned i, uint64_t round)
{
    struct end *get = &stage->get[i], *put = &stage->put[i];

    offer(stage, get, put);
    if (!stage->options.one_sided)
        write_round(stage, put, round);
    report(stage, get, put);
    if (round % 10 != 9)
        return;
    count(stage, get);
    if (!stage->options.one_sided)
        count(stage, put);
    load(stage, &stage->get_worker, 300000, 500000, 200000);
    if (!stage->options.one_sided)
        load(stage, &stage->put_worker, 700000, 300000, 0);
}

/* Half of the receives still posted are cancelled, the others stay with the endpoint. */
static void close_end(struct stage *stage, struct end *end, uint8_t receive_kind, uint8_t eof_kind)
{
    phase(stage, end, FABT_PHASE_FINISH);
    state(stage, end, FABT_STATE_EOF);
    FABT_TRACE(eof, .session = end->session, .kind = eof_kind, .op = end->ops);
    phase(stage, end, FABT_PHASE_DRAIN);
    state(stage, end, FABT_STATE_DRAIN);
    for (unsigned i = 0; i < RECEIVES; i++) {
        if (i % 2 == 0)
            complete(stage, end, end->receives[i], receive_kind, FABT_STATUS_CANCELLED, 0, 0, 0);
        else
            FABT_TRACE(op_abandon, .session = end->session, .op = end->receives[i],
                       .kind = receive_kind);
    }
    phase(stage, end, FABT_PHASE_CLOSED);
    state(stage, end, FABT_STATE_DONE);
    count(stage, end);
    FABT_TRACE(session_close, .session = end->session, .outcome = FABT_OUTCOME_OK,
               .payload_bytes = end->count.payload_bytes, .elapsed_ns = now_ns() - end->started_ns,
               .reason = "");
}

static void end_process(struct stage *stage, struct worker *worker, enum hat main_hat)
{
    struct fabt_writer ended;

    load(stage, worker, 100000, 100000, 0);
    FABT_TRACE(migrate, .worker = 0, .from_cpu = 0, .to_cpu = 1);
    FABT_TRACE(worker_stats, .worker = 0, .loops = worker->load.loops, .loops_no_completion = 100,
               .loops_no_session = 50, .waits = 9, .waits_refused = 2, .sleeps = 7, .migrations = 1,
               .sessions = SESSIONS);
    fabt_trace_writer_end(&ended);
    wear(stage, main_hat);
    FABT_TRACE(process_end, .exit_code = 0, .ok = SESSIONS);
    fabt_trace_writer_end(&ended);
}

static void begin(struct stage *stage)
{
    const uint32_t get_instance = fabt_trace_make_instance();
    const uint32_t put_instance = fabt_trace_make_instance();
    const uint32_t instances[HATS] = {get_instance, get_instance, put_instance, put_instance};

    for (unsigned hat = 0; hat < HATS; hat++) {
        fabt_trace_writer_start(instances[hat], hat % 2);
        stage->writers[hat] = fabt_writer;
    }
    stage->hat = PUT_WORKER;
    stage->get_worker.hat = GET_WORKER;
    stage->put_worker.hat = PUT_WORKER;
    for (uint32_t i = 0; i < SESSIONS; i++) {
        stage->get[i] = (struct end){.session = i, .hat = GET_WORKER};
        stage->put[i] = (struct end){.session = i, .hat = PUT_WORKER};
    }
    introduce_process(stage, GET_MAIN, FABT_ROLE_GET, 4001, FABT_CAUSE_START);
    introduce_worker(stage, &stage->get_worker, 4011, 0, 0);
    if (stage->options.one_sided)
        return;
    introduce_process(stage, PUT_MAIN, FABT_ROLE_PUT, 4002, FABT_CAUSE_START);
    introduce_worker(stage, &stage->put_worker, 4012, 1, -1);
}

static void play(struct stage *stage)
{
    begin(stage);
    for (unsigned i = 0; i < SESSIONS; i++)
        handshake(stage, i);
    for (uint32_t round = 0; round < stage->options.rounds; round++) {
        for (unsigned i = 0; i < SESSIONS; i++)
            round_trip(stage, i, round);
        if (round == stage->options.rounds / 2)
            introduce_process(stage, GET_MAIN, FABT_ROLE_GET, 4001, FABT_CAUSE_STATE_DUMP);
    }
    if (stage->options.kill) {
        /* As SIGKILL leaves it: a message posted, nothing closed. */
        post(stage, &stage->get[0], FABT_KIND_VECTOR_TX, 80, 97, stage->get[0].vectors);
        return;
    }
    for (unsigned i = 0; i < SESSIONS; i++) {
        if (!stage->options.one_sided)
            close_end(stage, &stage->put[i], FABT_KIND_VECTOR_RX, FABT_KIND_PROGRESS_TX);
        close_end(stage, &stage->get[i], FABT_KIND_PROGRESS_RX, FABT_KIND_VECTOR_TX);
    }
    end_process(stage, &stage->get_worker, GET_MAIN);
    if (!stage->options.one_sided)
        end_process(stage, &stage->put_worker, PUT_MAIN);
}

static int number(const char *text, uint32_t *value)
{
    char *end;
    unsigned long parsed;

    errno = 0;
    parsed = strtoul(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || parsed == 0 || parsed > 1000000000)
        return -EINVAL;
    *value = (uint32_t)parsed;
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"rounds", required_argument, NULL, 'r'},
        {"schema", required_argument, NULL, 's'},
        {"kill", no_argument, NULL, 'k'},
        {"one-sided", no_argument, NULL, 'o'},
        {"full", no_argument, NULL, 'f'},
        {"run-id", required_argument, NULL, 'i'},
        {NULL, 0, NULL, 0},
    };
    static struct stage stage = {
        .options = {.rounds = 40, .schema = FABT_SCHEMA_VERSION, .run_id = 0xfab7ace}};
    int option, rc = 0;

    while (rc == 0 && (option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (option) {
        case 'r':
            rc = number(optarg, &stage.options.rounds);
            break;
        case 's':
            rc = number(optarg, &stage.options.schema);
            break;
        case 'i':
            rc = number(optarg, &stage.options.run_id);
            break;
        case 'k':
            stage.options.kill = true;
            break;
        case 'o':
            stage.options.one_sided = true;
            break;
        case 'f':
            stage.options.full = true;
            break;
        default:
            rc = -EINVAL;
        }
    }
    if (rc != 0 || optind != argc) {
        fprintf(stderr, "usage: emit [--rounds N] [--schema N] [--kill] [--one-sided] [--full] "
                        "[--run-id N]\n");
        return 2;
    }
    play(&stage);
    return 0;
}
