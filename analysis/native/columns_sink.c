/* SPDX-License-Identifier: BSD-3-Clause
 * sink.fabt.columns: events of provider `fabt` into columns, a table an event name.
 *
 * Parameters: `collector` (an id from fabt_collector_new, for programs that look at the columns
 * afterwards), or `path` (a folder that gets NumPy files and stays bounded in memory). With
 * `collector` also `ports`: so many inputs, in0, in1, …, which are read one after the other. Each
 * is a stream; whoever wants one order sorts afterwards, which costs less than a muxer. */
#include "columns_sink.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector.h"
#include "plan.h"
#include "pointer_map.h"
#include "write_all.h"

#define NPY_CHUNK_ROWS 65536
#define BATCHES 1024 /* between two looks at what interrupts the graph */

/* What we know of a stream that is being read. */
struct stream_state {
    const bt_stream *stream; /* ours: keeps its address from being used again */
    uint16_t number;
};

struct columns_sink {
    bt_self_component_sink *self;
    bt_message_iterator *iterator; /* of the port that is read now */
    uint64_t port, ports;
    struct collector *collector;
    char *path;                 /* of NumPy files: the collector is our own then */
    struct pointer_map plans;   /* bt_event_class → struct plan */
    struct pointer_map streams; /* bt_stream → struct stream_state */
    const bt_stream *last_stream;
    uint16_t last_number;
};

static void report(const struct columns_sink *sink, int rc, const char *what)
{
    const char *error = sink->collector == NULL ? "" : sink->collector->error;

    BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_COMPONENT(
        bt_self_component_sink_as_self_component(sink->self), "%s: %s", what,
        *error != '\0' ? error : strerror(-rc));
}

static int open_collector(struct columns_sink *sink, const bt_value *parameters)
{
    const bt_value *id = bt_value_map_borrow_entry_value_const(parameters, "collector");
    const bt_value *path = bt_value_map_borrow_entry_value_const(parameters, "path");
    int64_t number = 0;

    if (id != NULL && bt_value_is_signed_integer(id))
        number = bt_value_integer_signed_get(id);
    else if (id != NULL && bt_value_is_unsigned_integer(id))
        number = (int64_t)(bt_value_integer_unsigned_get(id) & INT64_MAX);
    if (id != NULL) {
        sink->collector = collector_find(number);
        return sink->collector == NULL ? -ENOENT : 0;
    }
    if (path == NULL || !bt_value_is_string(path))
        return -EINVAL;
    sink->path = strdup(bt_value_string_get(path));
    if (sink->path == NULL)
        return -ENOMEM;
    return collector_new(COLLECTOR_NPY, sink->path, NPY_CHUNK_ROWS, &sink->collector);
}

static void report_parameters(const struct columns_sink *sink, int rc)
{
    if (rc == -EINVAL)
        report(sink, rc, "parameter `path` (a new folder for NumPy files) must be given");
    else if (rc == -ENOENT && sink->path == NULL)
        report(sink, rc, "parameter `collector`: there is none with this id");
    else
        report(sink, rc, sink->path == NULL ? "no memory" : sink->path);
}

static void free_sink(struct columns_sink *sink)
{
    for (size_t i = 0; sink->plans.pairs != NULL && i < (size_t)1 << sink->plans.bits; i++) {
        if (sink->plans.pairs[i].key != NULL) {
            bt_event_class_put_ref(sink->plans.pairs[i].key);
            plan_free(sink->plans.pairs[i].value);
        }
    }
    for (size_t i = 0; sink->streams.pairs != NULL && i < (size_t)1 << sink->streams.bits; i++) {
        if (sink->streams.pairs[i].key != NULL) {
            bt_stream_put_ref(sink->streams.pairs[i].key);
            free(sink->streams.pairs[i].value);
        }
    }
    pointer_map_free(&sink->plans);
    pointer_map_free(&sink->streams);
    if (sink->path != NULL && sink->collector != NULL)
        collector_delete(sink->collector);
    bt_message_iterator_put_ref(sink->iterator);
    free(sink->path);
    free(sink);
}

static int add_ports(struct columns_sink *sink, const bt_value *parameters)
{
    const bt_value *ports = bt_value_map_borrow_entry_value_const(parameters, "ports");
    char name[24] = "in";

    sink->ports = 1;
    if (ports != NULL && sink->path == NULL && bt_value_is_signed_integer(ports) &&
        bt_value_integer_signed_get(ports) > 0)
        sink->ports = (uint64_t)bt_value_integer_signed_get(ports);
    for (uint64_t i = 0; i < sink->ports; i++) {
        if (sink->ports > 1)
            (void)snprintf(name, sizeof(name), "in%" PRIu64, i);
        if (bt_self_component_sink_add_input_port(sink->self, name, NULL, NULL) !=
            BT_SELF_COMPONENT_ADD_PORT_STATUS_OK)
            return -ENOMEM;
    }
    return 0;
}

bt_component_class_initialize_method_status
columns_initialize(bt_self_component_sink *self,
                   bt_self_component_sink_configuration *configuration, const bt_value *parameters,
                   void *data)
{
    struct columns_sink *sink = calloc(1, sizeof(*sink));
    int rc;

    (void)configuration;
    (void)data;
    if (sink == NULL)
        return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_MEMORY_ERROR;
    sink->self = self;
    rc = open_collector(sink, parameters);
    if (rc == 0)
        rc = add_ports(sink, parameters);
    if (rc != 0) {
        report_parameters(sink, rc);
        free_sink(sink);
        return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
    }
    bt_self_component_set_data(bt_self_component_sink_as_self_component(self), sink);
    return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

static struct columns_sink *sink_of(bt_self_component_sink *self)
{
    return bt_self_component_get_data(bt_self_component_sink_as_self_component(self));
}

void columns_finalize(bt_self_component_sink *self)
{
    free_sink(sink_of(self));
}

bt_component_class_sink_graph_is_configured_method_status
columns_graph_is_configured(bt_self_component_sink *self)
{
    return sink_of(self)->ports == bt_component_sink_get_input_port_count(
                                       bt_self_component_sink_as_component_sink(self))
               ? BT_COMPONENT_CLASS_SINK_GRAPH_IS_CONFIGURED_METHOD_STATUS_OK
               : BT_COMPONENT_CLASS_SINK_GRAPH_IS_CONFIGURED_METHOD_STATUS_ERROR;
}

/* ------------------------------------------------------------------------------ streams */

static json_t *environment_of(const bt_trace *trace)
{
    json_t *environment = json_object();
    const uint64_t count = bt_trace_get_environment_entry_count(trace);

    for (uint64_t i = 0; environment != NULL && i < count; i++) {
        const bt_value *value;
        const char *name;
        json_t *entry;

        bt_trace_borrow_environment_entry_by_index_const(trace, i, &name, &value);
        if (bt_value_is_signed_integer(value))
            entry = json_integer((json_int_t)bt_value_integer_signed_get(value));
        else
            entry = collector_text(bt_value_is_string(value) ? bt_value_string_get(value) : "");
        (void)json_object_set_new(environment, name, entry);
    }
    return environment;
}

static void declare(struct collector *collector, const bt_trace_class *class)
{
    const uint64_t streams = bt_trace_class_get_stream_class_count(class);

    for (uint64_t i = 0; i < streams; i++) {
        const bt_stream_class *stream = bt_trace_class_borrow_stream_class_by_index_const(class, i);
        const uint64_t events = bt_stream_class_get_event_class_count(stream);

        for (uint64_t j = 0; j < events; j++) {
            const char *name = bt_event_class_get_name(
                bt_stream_class_borrow_event_class_by_index_const(stream, j));

            if (name != NULL && strncmp(name, SCHEMA_PREFIX, strlen(SCHEMA_PREFIX)) == 0)
                (void)json_object_set_new(collector->declared, name + strlen(SCHEMA_PREFIX),
                                          json_null());
        }
    }
}

static int stream_begins(struct columns_sink *sink, const bt_stream *stream)
{
    const bt_stream_class *class = bt_stream_borrow_class_const(stream);
    const bt_trace *trace = bt_stream_borrow_trace_const(stream);
    const char *name = bt_stream_get_name(stream);
    const char *file = name == NULL ? NULL : strrchr(name, '/');
    struct stream_state *state;
    int number;

    if (bt_stream_class_borrow_default_clock_class_const(class) == NULL) {
        (void)snprintf(sink->collector->error, sizeof(sink->collector->error),
                       "its events have no time");
        return -EPROTO;
    }
    declare(sink->collector, bt_trace_borrow_class_const(trace));
    number = collector_add_stream(sink->collector, file == NULL ? name : file + 1,
                                  environment_of(trace));
    if (number < 0)
        return number;
    state = calloc(1, sizeof(*state));
    if (state == NULL || pointer_map_add(&sink->streams, stream, state) != 0) {
        free(state);
        return -ENOMEM;
    }
    bt_stream_get_ref(stream);
    state->number = (uint16_t)number;
    return 0;
}

/* A packet's context may say which processor wrote it. */
static int packet_begins(struct columns_sink *sink, const bt_packet *packet)
{
    const bt_field *context = bt_packet_borrow_context_field_const(packet);
    const bt_field *cpu =
        context == NULL ? NULL
                        : bt_field_structure_borrow_member_field_by_name_const(context, "cpu_id");
    struct stream_state *state =
        pointer_map_find(&sink->streams, bt_packet_borrow_stream_const(packet));
    uint64_t value;
    int number;

    collector_note_packet(sink->collector);
    if (state == NULL || cpu == NULL ||
        !bt_field_class_type_is(bt_field_get_class_type(cpu), BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER))
        return 0;
    value = bt_field_integer_unsigned_get_value(cpu);
    if (value > INT16_MAX)
        return 0;
    number = collector_stream_of_cpu(sink->collector, state->number, (int64_t)value);
    if (number < 0)
        return number;
    state->number = (uint16_t)number;
    sink->last_stream = NULL;
    return 0;
}

static json_t *snapshot_ns(const bt_clock_snapshot *snapshot)
{
    int64_t ns;

    if (snapshot == NULL || bt_clock_snapshot_get_ns_from_origin(snapshot, &ns) !=
                                BT_CLOCK_SNAPSHOT_GET_NS_FROM_ORIGIN_STATUS_OK)
        return json_null();
    return json_integer((json_int_t)ns);
}

static int events_discarded(struct columns_sink *sink, const bt_message *message)
{
    const bt_stream *stream = bt_message_discarded_events_borrow_stream_const(message);
    const struct stream_state *state = pointer_map_find(&sink->streams, stream);
    const bt_clock_snapshot *begin = NULL, *end = NULL;
    uint64_t count = 0;
    json_t *counted;

    if (state == NULL)
        return 0;
    if (bt_stream_class_discarded_events_have_default_clock_snapshots(
            bt_stream_borrow_class_const(stream))) {
        begin = bt_message_discarded_events_borrow_beginning_default_clock_snapshot_const(message);
        end = bt_message_discarded_events_borrow_end_default_clock_snapshot_const(message);
    }
    counted =
        bt_message_discarded_events_get_count(message, &count) == BT_PROPERTY_AVAILABILITY_AVAILABLE
            ? json_integer((json_int_t)(count & INT64_MAX))
            : json_null();
    return json_array_append_new(
               sink->collector->discarded,
               json_pack("[O, o, o, o]",
                         json_array_get(json_array_get(sink->collector->streams, state->number), 0),
                         counted, snapshot_ns(begin), snapshot_ns(end))) == 0
               ? 0
               : -ENOMEM;
}

/* ------------------------------------------------------------------------------- events */

static struct plan *plan_of(struct columns_sink *sink, const bt_event_class *class, int *rc)
{
    struct plan *plan = pointer_map_find(&sink->plans, class);

    if (plan != NULL)
        return plan;
    *rc = plan_make(sink->collector, class, &plan);
    if (*rc != 0)
        return NULL;
    *rc = pointer_map_add(&sink->plans, class, plan);
    if (*rc != 0) {
        plan_free(plan);
        return NULL;
    }
    bt_event_class_get_ref(class); /* keeps its address from being used again */
    return plan;
}

static int take_event(struct columns_sink *sink, const bt_message *message)
{
    const bt_event *event = bt_message_event_borrow_event_const(message);
    const bt_stream *stream = bt_event_borrow_stream_const(event);
    int64_t time_ns;
    int rc = 0;
    const struct plan *plan = plan_of(sink, bt_event_borrow_class_const(event), &rc);

    if (plan == NULL || plan->table == NULL)
        return rc;
    if (stream != sink->last_stream) {
        const struct stream_state *state = pointer_map_find(&sink->streams, stream);

        if (state == NULL)
            return -EPROTO;
        sink->last_stream = stream;
        sink->last_number = state->number;
    }
    if (bt_clock_snapshot_get_ns_from_origin(
            bt_message_event_borrow_default_clock_snapshot_const(message), &time_ns) !=
        BT_CLOCK_SNAPSHOT_GET_NS_FROM_ORIGIN_STATUS_OK)
        return -ERANGE;
    return plan_append(plan, sink->collector, event, time_ns, sink->last_number);
}

static int take(struct columns_sink *sink, const bt_message *message)
{
    switch (bt_message_get_type(message)) {
    case BT_MESSAGE_TYPE_EVENT:
        return take_event(sink, message);
    case BT_MESSAGE_TYPE_STREAM_BEGINNING:
        return stream_begins(sink, bt_message_stream_beginning_borrow_stream_const(message));
    case BT_MESSAGE_TYPE_PACKET_BEGINNING:
        return packet_begins(sink, bt_message_packet_beginning_borrow_packet_const(message));
    case BT_MESSAGE_TYPE_DISCARDED_EVENTS:
        return events_discarded(sink, message);
    default:
        return 0;
    }
}

static int write_description(const struct columns_sink *sink)
{
    char *path = NULL;
    char *text = collector_describe(sink->collector);
    FILE *file = NULL;
    int rc = text == NULL || asprintf(&path, "%s/trace.json", sink->path) < 0 ? -ENOMEM : 0;

    if (rc == 0 && (file = fopen(path, "we")) == NULL)
        rc = -errno;
    if (rc == 0 && fprintf(file, "%s\n", text) < 0)
        rc = -errno;
    if (file != NULL && fclose(file) != 0 && rc == 0)
        rc = -errno;
    free(path);
    free(text);
    return rc;
}

static bt_component_class_sink_consume_method_status finish(struct columns_sink *sink)
{
    int rc = collector_flush(sink->collector);

    if (rc == 0 && sink->path != NULL)
        rc = write_description(sink);
    if (rc == 0)
        return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_END;
    report(sink, rc, sink->path != NULL ? sink->path : "writing columns");
    return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_ERROR;
}

/* Takes the messages of a batch. 0 or a negative errno; the first failure is the one to report. */
static int take_batch(struct columns_sink *sink, bt_message_array_const messages, uint64_t count)
{
    int rc = 0;

    for (uint64_t i = 0; i < count; i++) {
        if (rc == 0)
            rc = take(sink, messages[i]);
        bt_message_put_ref(messages[i]);
    }
    if (sink->collector->progress != NULL)
        __atomic_store_n(sink->collector->progress, sink->collector->events, __ATOMIC_RELAXED);
    return rc;
}

/* Goes on to the next input. Iterators are made when it is their turn: each holds a file open. */
static bt_component_class_sink_consume_method_status next_port(struct columns_sink *sink)
{
    bt_message_iterator_create_from_sink_component_status status;
    int rc;

    if (sink->iterator != NULL) {
        BT_MESSAGE_ITERATOR_PUT_REF_AND_RESET(sink->iterator);
        sink->port++;
        rc = sink->path == NULL ? collector_next_source(sink->collector) : 0;
        if (rc != 0) {
            report(sink, rc, "writing columns");
            return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_ERROR;
        }
    }
    if (sink->port == sink->ports)
        return finish(sink);
    status = bt_message_iterator_create_from_sink_component(
        sink->self, bt_self_component_sink_borrow_input_port_by_index(sink->self, sink->port),
        &sink->iterator);
    return (bt_component_class_sink_consume_method_status)status;
}

bt_component_class_sink_consume_method_status columns_consume(bt_self_component_sink *self)
{
    struct columns_sink *sink = sink_of(self);

    if (sink->iterator == NULL)
        return next_port(sink);
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        bt_message_array_const messages;
        uint64_t count = 0;
        const bt_message_iterator_next_status status =
            bt_message_iterator_next(sink->iterator, &messages, &count);
        int rc;

        if (status == BT_MESSAGE_ITERATOR_NEXT_STATUS_END)
            return next_port(sink);
        if (status != BT_MESSAGE_ITERATOR_NEXT_STATUS_OK)
            return (bt_component_class_sink_consume_method_status)status;
        rc = take_batch(sink, messages, count);
        if (rc != 0) {
            report(sink, rc, "events into columns");
            return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_ERROR;
        }
    }
    return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_OK;
}
