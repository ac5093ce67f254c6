/* SPDX-License-Identifier: BSD-3-Clause
 * sink.fabt.summary: which events there are, and how many are missing between a writer's first and
 * last of a name. It needs neither Python nor memory for the events.
 *
 * Each writer numbers its events of a name (`seq`), and a stream holds what one processor wrote, so
 * a writer's numbers come from several streams, in time order. What is missing is therefore counted
 * from the smallest and greatest number and how many there were. */
#include "summary_sink.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pointer_map.h"
#include "schema.h"

/* One writer's events of one name. */
struct writer {
    uint64_t id, first, last, count;
    struct writer *next;
};

/* The events of one class; several traces may have a class each of the same name. */
struct name {
    char *event;
    int64_t writer, seq; /* members of the payload, -1 if they are not there */
    uint64_t count;
    int64_t first_ns, last_ns;
    struct writer *writers; /* the last one seen first: few, and they come in runs */
    struct name *next;
};

struct summary_sink {
    bt_message_iterator *iterator;
    struct pointer_map names; /* bt_event_class → struct name */
    struct name *list;        /* in order of their first event */
    struct name **end;
};

static struct summary_sink *sink_of(bt_self_component_sink *self)
{
    return bt_self_component_get_data(bt_self_component_sink_as_self_component(self));
}

bt_component_class_initialize_method_status
summary_initialize(bt_self_component_sink *self,
                   bt_self_component_sink_configuration *configuration, const bt_value *parameters,
                   void *data)
{
    struct summary_sink *sink = calloc(1, sizeof(*sink));

    (void)configuration;
    (void)parameters;
    (void)data;
    if (sink == NULL)
        return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_MEMORY_ERROR;
    sink->end = &sink->list;
    if (bt_self_component_sink_add_input_port(self, "in", NULL, NULL) !=
        BT_SELF_COMPONENT_ADD_PORT_STATUS_OK) {
        free(sink);
        return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_MEMORY_ERROR;
    }
    bt_self_component_set_data(bt_self_component_sink_as_self_component(self), sink);
    return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

static void free_name(struct name *name)
{
    while (name->writers != NULL) {
        struct writer *next = name->writers->next;

        free(name->writers);
        name->writers = next;
    }
    free(name->event);
    free(name);
}

void summary_finalize(bt_self_component_sink *self)
{
    struct summary_sink *sink = sink_of(self);

    for (size_t i = 0; sink->names.pairs != NULL && i < (size_t)1 << sink->names.bits; i++)
        bt_event_class_put_ref(sink->names.pairs[i].key);
    pointer_map_free(&sink->names);
    while (sink->list != NULL) {
        struct name *next = sink->list->next;

        free_name(sink->list);
        sink->list = next;
    }
    bt_message_iterator_put_ref(sink->iterator);
    free(sink);
}

bt_component_class_sink_graph_is_configured_method_status
summary_graph_is_configured(bt_self_component_sink *self)
{
    return (bt_component_class_sink_graph_is_configured_method_status)
        bt_message_iterator_create_from_sink_component(
            self, bt_self_component_sink_borrow_input_port_by_index(self, 0),
            &sink_of(self)->iterator);
}

/* The index of an unsigned member of the payload, or -1. */
static int64_t unsigned_member(const bt_event_class *class, const char *name)
{
    const bt_field_class *payload = bt_event_class_borrow_payload_field_class_const(class);
    const uint64_t count = payload == NULL ? 0 : bt_field_class_structure_get_member_count(payload);

    for (uint64_t i = 0; i < count; i++) {
        const bt_field_class_structure_member *member =
            bt_field_class_structure_borrow_member_by_index_const(payload, i);

        if (strcmp(bt_field_class_structure_member_get_name(member), name) == 0 &&
            bt_field_class_type_is(
                bt_field_class_get_type(
                    bt_field_class_structure_member_borrow_field_class_const(member)),
                BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER))
            return (int64_t)i;
    }
    return -1;
}

static struct name *find_name(const struct summary_sink *sink, const char *event)
{
    struct name *name = sink->list;

    while (name != NULL && strcmp(name->event, event) != 0)
        name = name->next;
    return name;
}

static struct name *name_of(struct summary_sink *sink, const bt_event_class *class)
{
    struct name *name = pointer_map_find(&sink->names, class);
    const char *event = bt_event_class_get_name(class);

    if (name != NULL)
        return name;
    name = find_name(sink, event == NULL ? "(without name)" : event);
    if (name == NULL) {
        name = calloc(1, sizeof(*name));
        if (name == NULL)
            return NULL;
        name->event = strdup(event == NULL ? "(without name)" : event);
        name->writer = unsigned_member(class, "writer");
        name->seq = unsigned_member(class, "seq");
        if (name->event == NULL) {
            free(name);
            return NULL;
        }
        *sink->end = name;
        sink->end = &name->next;
    }
    if (pointer_map_add(&sink->names, class, name) != 0)
        return NULL;
    bt_event_class_get_ref(class);
    return name;
}

static struct writer *writer_of(struct name *name, uint64_t id, uint64_t seq)
{
    struct writer **link = &name->writers, *writer;

    while (*link != NULL && (*link)->id != id)
        link = &(*link)->next;
    writer = *link;
    if (writer == NULL) {
        writer = calloc(1, sizeof(*writer));
        if (writer == NULL)
            return NULL;
        *writer = (struct writer){.id = id, .first = seq, .last = seq};
    } else {
        *link = writer->next;
    }
    writer->next = name->writers;
    name->writers = writer;
    return writer;
}

static uint64_t member_value(const bt_event *event, int64_t member)
{
    return bt_field_integer_unsigned_get_value(
        bt_field_structure_borrow_member_field_by_index_const(
            bt_event_borrow_payload_field_const(event), (uint64_t)member));
}

static int take_event(struct summary_sink *sink, const bt_message *message)
{
    const bt_event *event = bt_message_event_borrow_event_const(message);
    struct name *name = name_of(sink, bt_event_borrow_class_const(event));
    const int has_clock =
        bt_stream_class_borrow_default_clock_class_const(
            bt_stream_borrow_class_const(bt_event_borrow_stream_const(event))) != NULL;
    struct writer *writer;
    int64_t ns = 0;
    uint64_t seq;

    if (name == NULL)
        return -1;
    if (has_clock && bt_clock_snapshot_get_ns_from_origin(
                         bt_message_event_borrow_default_clock_snapshot_const(message), &ns) !=
                         BT_CLOCK_SNAPSHOT_GET_NS_FROM_ORIGIN_STATUS_OK)
        ns = 0;
    if (name->count == 0 || ns < name->first_ns)
        name->first_ns = ns;
    if (name->count == 0 || ns > name->last_ns)
        name->last_ns = ns;
    name->count++;
    if (name->writer < 0 || name->seq < 0)
        return 0;
    seq = member_value(event, name->seq);
    writer = writer_of(name, member_value(event, name->writer), seq);
    if (writer == NULL)
        return -1;
    writer->first = seq < writer->first ? seq : writer->first;
    writer->last = seq > writer->last ? seq : writer->last;
    writer->count++;
    return 0;
}

/* What is missing between the first and last of each writer. */
static uint64_t lost_of(const struct name *name, unsigned *writers)
{
    uint64_t lost = 0;

    *writers = 0;
    for (const struct writer *writer = name->writers; writer != NULL; writer = writer->next) {
        const uint64_t span = writer->last - writer->first;

        lost += span >= writer->count ? span - writer->count + 1 : 0;
        (*writers)++;
    }
    return lost;
}

static void print_summary(const struct summary_sink *sink)
{
    int64_t begin = INT64_MAX;
    uint64_t events = 0, lost = 0;

    for (const struct name *name = sink->list; name != NULL; name = name->next)
        begin = name->first_ns < begin ? name->first_ns : begin;
    printf("%-24s %12s %12s %12s %8s %8s\n", "event", "count", "first s", "last s", "writers",
           "lost");
    for (const struct name *name = sink->list; name != NULL; name = name->next) {
        unsigned writers;
        const uint64_t missing = lost_of(name, &writers);

        printf("%-24s %12" PRIu64 " %12.6f %12.6f %8u %8" PRIu64 "\n", name->event, name->count,
               (double)(name->first_ns - begin) / 1e9, (double)(name->last_ns - begin) / 1e9,
               writers, missing);
        events += name->count;
        lost += missing;
    }
    printf("%-24s %12" PRIu64 " %34s %8" PRIu64 "\n", "all", events, "", lost);
    (void)fflush(stdout);
}

bt_component_class_sink_consume_method_status summary_consume(bt_self_component_sink *self)
{
    struct summary_sink *sink = sink_of(self);
    bt_message_array_const messages;
    uint64_t count = 0;
    const bt_message_iterator_next_status status =
        bt_message_iterator_next(sink->iterator, &messages, &count);
    int rc = 0;

    if (status == BT_MESSAGE_ITERATOR_NEXT_STATUS_END) {
        print_summary(sink);
        return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_END;
    }
    if (status != BT_MESSAGE_ITERATOR_NEXT_STATUS_OK)
        return (bt_component_class_sink_consume_method_status)status;
    for (uint64_t i = 0; i < count; i++) {
        if (rc == 0 && bt_message_get_type(messages[i]) == BT_MESSAGE_TYPE_EVENT)
            rc = take_event(sink, messages[i]);
        bt_message_put_ref(messages[i]);
    }
    return rc == 0 ? BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_OK
                   : BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_MEMORY_ERROR;
}
